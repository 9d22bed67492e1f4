package main

import (
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// simple follows a simple command: assignments, a function, a builtin or a program.
func (r *run) simple(s *state, c *syntax.CallExpr) {
	r.subst = nil
	args := r.fields(s, c.Args)
	if len(args) == 0 {
		r.assignments(s, c.Assigns, false)
		done := status{sure: true, way: "after", by: r.text(c)}
		if r.subst != nil {
			done.code, done.sure = r.subst.code, r.subst.sure
		}
		s.having(done)
		return
	}
	if len(c.Assigns) == 0 {
		r.call(s, c, args)
		return
	}
	if r.posix && special[args[0]] {
		giveUp() // dash keeps the assignments, bash does not
	}
	before := maps.Clone(s.vars)
	r.assignments(s, c.Assigns, true)
	r.call(s, c, args)
	for _, each := range c.Assigns {
		if v, there := before[each.Name.Value]; there {
			s.vars[each.Name.Value] = v
		} else {
			delete(s.vars, each.Name.Value)
		}
	}
}

func (r *run) assignments(s *state, all []*syntax.Assign, exported bool) {
	for _, each := range all {
		v := r.assigned(s, each)
		v.Exported, v.Local = v.Exported || exported, v.Local && !exported
		r.assign(s, each.Name.Value, v)
	}
}

// assigned is the variable that `NAME=value` makes.
func (r *run) assigned(s *state, each *syntax.Assign) expand.Variable {
	name := each.Name.Value
	v := s.vars[name]
	now := expand.Variable{Set: true, Exported: v.Exported || s.allexport, Local: v.Local && !s.allexport, Kind: expand.String}
	switch {
	case each.Index != nil || v.Map != nil:
		now.Str = r.literal(s, each.Value) + r.mark("$"+name)
	case each.Array != nil:
		now.Kind = expand.Indexed
		if each.Append && v.Kind == expand.Indexed {
			now.List = slices.Clone(v.List)
		} else if each.Append {
			now.List = []string{environment{r, s}.Get(name).Str}
		}
		for _, element := range each.Array.Elems {
			if element.Index != nil {
				giveUp()
			}
			now.List = append(now.List, r.fields(s, []*syntax.Word{element.Value})...)
		}
	case each.Append && v.Kind == expand.Indexed:
		giveUp()
	default:
		value := r.literal(s, each.Value)
		if each.Append {
			r.asked = nil
			value = environment{r, s}.Get(name).Str + value
		}
		if now.Str = r.sized(value); v.Kind == expand.Indexed && len(v.List) > 0 {
			now.Kind, now.List = v.Kind, slices.Clone(v.List)
			now.Str, now.List[0] = "", value
		}
	}
	return now
}

// declare follows export, readonly, local, declare and typeset.
func (r *run) declare(s *state, c *syntax.DeclClause) {
	name, said := c.Variant.Value, []string{c.Variant.Value}
	export, local, mode := name == "export", r.frame != nil && (name != "export" && name != "readonly"), ""
	if name == "local" && !local {
		giveUp()
	}
	one := func(name string, v expand.Variable, naked bool) {
		old, there := s.vars[name]
		if local {
			if _, saved := r.frame.locals[name]; !saved {
				if r.frame.locals[name] = nil; there {
					outer := old
					r.frame.locals[name] = &outer
				}
				if old = (expand.Variable{Exported: old.Exported}); r.posix && there {
					old = r.vague(name, old, old) // dash keeps the value, bash does not
				}
			}
		} else if naked && !there {
			old = r.vague(name, expand.Variable{}, expand.Variable{}) // the image may set it
		}
		if old.ReadOnly && !naked {
			giveUp()
		}
		if naked {
			v = old
		}
		if export || strings.Contains(mode, "x") {
			v.Exported, v.Local = !strings.Contains(mode, "n"), false
		}
		v.ReadOnly = c.Variant.Value == "readonly" || strings.Contains(mode, "r")
		s.vars[name] = v
	}
	for _, each := range c.Args {
		if each.Name != nil {
			if each.Naked {
				said = append(said, each.Name.Value)
				one(each.Name.Value, expand.Variable{}, true)
				continue
			}
			if each.Value != nil && r.posix && !quoted(each.Value) {
				// dash splits the value, bash does not.
				if split := r.fields(s, []*syntax.Word{each.Value}); len(split) != 1 {
					giveUp()
				}
			}
			if braces := (&syntax.Word{}); each.Value != nil {
				if *braces = *each.Value; syntax.SplitBraces(braces) {
					giveUp()
				}
			}
			v := r.assigned(s, each)
			said = append(said, each.Name.Value+"="+v.String())
			one(each.Name.Value, v, false)
			continue
		}
		for _, field := range r.fields(s, []*syntax.Word{each.Value}) {
			said = append(said, field)
			name, value, assigns := strings.Cut(field, "=")
			if option := strings.TrimLeft(field, "-"); option != field {
				if mode += option; strings.Trim(option, "xrgnp") != "" || strings.Contains(option, "n") && !export {
					giveUp()
				}
			} else if !syntax.ValidName(name) {
				s.partial = true
			} else {
				v := text(value)
				v.Exported, v.Local = s.vars[name].Exported || s.allexport, s.vars[name].Local && !s.allexport
				one(name, v, !assigns)
			}
		}
	}
	r.record(s, c, said)
	s.having(status{sure: true, way: "after", by: r.text(c)})
}

// quoted says whether no shell splits a word.
func quoted(w *syntax.Word) bool {
	return !slices.ContainsFunc(w.Parts, func(part syntax.WordPart) bool {
		switch part.(type) {
		case *syntax.ParamExp, *syntax.CmdSubst:
			return true
		}
		return false
	})
}

// record notes a command line, once for each place of the script that it is called from.
func (r *run) record(s *state, node syntax.Node, args []string) {
	if r.captured > 0 || r.exits() {
		return
	}
	now := &command{Complete: !s.partial, Certain: r.uncertain == 0}
	for _, each := range args {
		now.Words = append(now.Words, word{r.written(each), !unknownText(each)})
	}
	now.Set, now.Unset = r.exported(s)
	at := place{node, r.path}
	before := r.index[at]
	if before == nil {
		if r.index[at], r.found = now, append(r.found, now); len(r.found) > commandCount {
			giveUp()
		}
		return
	}
	before.Complete, before.Certain = before.Complete && now.Complete, before.Certain && now.Certain
	for i := range before.Words {
		same := len(before.Words) == len(now.Words) && before.Words[i] == now.Words[i]
		before.Words[i].Known = before.Words[i].Known && same
	}
	for name, value := range now.Set {
		if old, there := before.Set[name]; !there || old == nil || value == nil || *old != *value {
			before.Set[name] = nil
		}
	}
	for name := range before.Set {
		if _, there := now.Set[name]; !there {
			before.Set[name] = nil
		}
	}
}

// program is what runs outside of the shell. Where the exit code is asked for, what launches fails, and every other
// program succeeds unless something asks whether it does.
func (r *run) program(s *state, args []string, done status) {
	r.say(r.mark("$(...)"))
	name := path.Base(args[0])
	if !r.exits() {
		if done.code = anyCode; name == "printf" {
			r.smearAll(s, args[1:])
		}
		s.having(done)
		return
	}
	said := make([]string, len(args))
	for i, each := range args {
		said[i] = r.written(each)
	}
	known, there := r.request.Programs[strings.Join(said, "\x00")]
	switch {
	case there && known.Launches:
		s.failed = true
		s.having(status{code: 1, sure: true})
		return
	case there && known.Script != nil:
		if !words("bash sh dash ash")[known.Script.Shell] || r.depth > nesting/2 {
			giveUp()
		}
		end := &state{dead: true}
		r.depth++
		for _, each := range r.script(known.Script, s) {
			each.dead = false
			r.join(end, each)
		}
		r.depth--
		s.back(end)
		return
	}
	done.sure = succeeds[name] || r.inPipe && filters[name] || name == "rm" && len(args) > 1 && strings.HasPrefix(args[1], "-")
	if s.followed = s.followed || s.failed && !done.sure; !done.sure && r.tested > 0 {
		done.code = anyCode
	}
	s.having(done)
}

func (r *run) function(s *state, node syntax.Node, f function, args []string) {
	if r.depth++; f.body == nil || r.depth > nesting {
		giveUp()
	}
	source, params, outer, loops, calls := r.source, s.params, r.frame, r.loops, r.path
	r.source, s.params, r.frame, r.loops = f.source, args, newFrame(), nil
	r.path += ">" + strconv.Itoa(int(node.Pos().Offset()))
	r.stmt(s, f.body)
	mine := r.frame
	r.joinAll(s, mine.returned)
	for name, v := range mine.locals {
		if v == nil {
			delete(s.vars, name)
		} else {
			s.vars[name] = *v
		}
	}
	r.source, s.params, r.frame, r.loops, r.path = source, params, outer, loops, calls
	r.depth--
}

// exported is what a command's environment has more and less than the script was given.
func (r *run) exported(s *state) (set map[string]*string, unset []string) {
	set = map[string]*string{}
	for name, v := range s.vars {
		before, given := r.request.Env[name]
		switch value := r.written(v.Str); {
		case !v.Exported || !v.Set || v.Kind != expand.String:
			if given {
				unset = append(unset, name)
			}
		case unknownText(v.Str) || v.Local:
			if !given || before != nil {
				set[name] = nil
			}
		case !given || before == nil || *before != value:
			set[name] = &value
		}
	}
	return set, unset
}
