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

// succeeds are programs whose success does not depend on what a launcher left; filters succeed with any input.
var (
	succeeds = words("date sleep tee export unset sync hostname echo printf declare local readonly typeset")
	filters  = words("awk cat head sed tail tee tr ts")
	special  = words(". : break continue eval exec exit export readonly return set shift times trap unset")
)

func words(text string) map[string]bool {
	found := map[string]bool{}
	for _, each := range strings.Fields(text) {
		found[each] = true
	}
	return found
}

// simple follows a simple command: assignments, a function, a builtin or a program.
func (r *run) simple(s *state, c *syntax.CallExpr) {
	r.subst = nil
	args := r.fields(s, c.Args)
	if len(args) == 0 {
		r.assignments(s, c.Assigns, false)
		if s.having(status{sure: true, way: "after", by: r.text(c)}); r.subst != nil {
			s.status.code, s.status.sure = r.subst.code, r.subst.sure
		}
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
		v.Exported = v.Exported || exported
		r.assign(s, each.Name.Value, v)
	}
}

// assigned is the variable that `NAME=value` makes.
func (r *run) assigned(s *state, each *syntax.Assign) expand.Variable {
	name := each.Name.Value
	v := s.vars[name]
	now := expand.Variable{Set: true, Exported: v.Exported || s.allexport, Kind: expand.String}
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
				old = expand.Variable{Exported: old.Exported}
			}
		} else if naked && !there {
			old = r.vague(name, false) // the image may set it
		}
		if old.ReadOnly && !naked {
			giveUp()
		}
		if naked {
			v = old
		}
		v.Exported = (v.Exported || export || strings.Contains(mode, "x")) && !strings.Contains(mode, "n")
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
				v.Exported = s.vars[name].Exported || s.allexport
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

// call follows a command line whose words are expanded.
func (r *run) call(s *state, node syntax.Node, args []string) {
	name := args[0]
	if f, there := s.funcs[name]; there {
		r.function(s, node, f, args[1:])
		return
	}
	r.record(s, node, args)
	by := strings.Join(args, " ")
	if call, ok := node.(*syntax.CallExpr); ok && len(call.Args) > 0 {
		by = r.source[call.Args[0].Pos().Offset():call.End().Offset()]
		by = strings.Join(strings.Fields(by), " ")
	}
	done := status{sure: true, way: "after", by: by}
	switch name {
	case "exec":
		if len(args) > 1 {
			s.trap = ""
			r.program(s, args[1:], done)
			r.exit(s)
			return
		}
	case ":", "true":
	case "false":
		done.code = 1
	case "echo", "printf":
		r.print(s, args)
	case "unset":
		for _, each := range args[1:] {
			if each == "-f" {
				giveUp()
			} else if syntax.ValidName(each) {
				r.assign(s, each, expand.Variable{})
			} else if each != "-v" {
				r.smearAll(s, strings.Split(each, "[")[:1])
			}
		}
	case "set":
		r.options(s, args[1:])
	case "shift":
		n := 1
		if len(args) > 1 {
			n, _ = strconv.Atoi(args[1])
		}
		if slices.ContainsFunc(s.params, isMany) {
			s.params = []string{many}
			break
		}
		if len(args) > 1 && !integer.MatchString(args[1]) || n < 0 || n > len(s.params) {
			giveUp()
		}
		s.params = s.params[n:]
	case "eval":
		if text := strings.Join(args[1:], " "); !unknownText(text) {
			r.eval(s, text)
			return
		}
		r.say(r.mark("$(...)"))
		s.partial, done.code = true, anyCode
	case "exit", "return", "break", "continue":
		r.leave(s, args, by)
		return
	case "trap":
		r.trap(s, args[1:])
	case "wait":
		done = status{sure: true, way: "wait", by: "wait"}
		for _, each := range args[1:] {
			done = status{code: anyCode}
			if job := r.statusOf(each); job != nil {
				done = *job
			}
		}
	case "[", "test":
		words := args[1:]
		if name == "[" {
			if len(words) == 0 || words[len(words)-1] != "]" {
				giveUp()
			}
			words = words[:len(words)-1]
		}
		done = r.outcome(r.check(words), by)
	case "builtin", "command":
		if len(args) > 1 && (special[args[1]] || args[1] == "cd" || args[1] == "read") {
			r.call(s, node, args[1:])
			return
		}
		r.program(s, args, done)
		return
	case "alias", "shopt", "mapfile", "readarray", "getopts", "read", "cd", "pushd", "popd", ".", "source", "let":
		switch {
		case name == "alias" && r.posix || name == "shopt" && slices.Contains(args, "lastpipe"):
			giveUp()
		case strings.HasSuffix(name, "d") && name != "read":
			r.smearAll(s, []string{"PWD", "OLDPWD"})
		case name == "." || name == "source":
			s.partial = true
		default:
			r.smearAll(s, append([]string{"REPLY", "MAPFILE", "OPTARG", "OPTIND"}, args[1:]...))
		}
		r.program(s, args, done)
		return
	default:
		r.program(s, args, done)
		return
	}
	s.having(done)
}

func (r *run) smearAll(s *state, names []string) {
	for _, name := range names {
		if syntax.ValidName(name) {
			r.set(s, name, r.mark("$"+name))
		} else if unknownText(name) {
			giveUp()
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

// leave follows what ends a shell, a function or a round of a loop.
func (r *run) leave(s *state, args []string, by string) {
	n := 1
	code := s.status
	if len(args) > 1 {
		number, err := strconv.Atoi(args[1])
		switch of := r.statusOf(args[1]); {
		case of != nil:
			code = *of
		case err != nil || number < 0 || len(args) > 2:
			code = status{code: anyCode}
		default:
			code = status{code: number % 256, sure: true}
		}
		n = number
	}
	switch args[0] {
	case "exit":
		code.way, code.by = "exit", by
		s.having(code)
		r.exit(s)
	case "return":
		if r.frame == nil {
			giveUp()
		}
		code.way, code.by = "exit", by
		s.having(code)
		r.frame.returned = append(r.frame.returned, s.clone())
		s.dead = true
	default:
		if n < 1 || n > len(r.loops) {
			giveUp()
		}
		s.having(status{sure: true, way: "after", by: args[0]})
		of := r.loops[len(r.loops)-n]
		if args[0] == "break" {
			of.broken = append(of.broken, s.clone())
		} else {
			of.continued = append(of.continued, s.clone())
		}
		s.dead = true
	}
}

// options follows what set and a shell's own command line turn on and off.
func (r *run) options(s *state, args []string) {
	for i := 0; i < len(args); i++ {
		each := args[i]
		if unknownText(each) {
			giveUp()
		}
		on := strings.HasPrefix(each, "-")
		if each == "--" || !on && !strings.HasPrefix(each, "+") {
			if each == "--" {
				i++
			}
			s.params = slices.Clone(args[i:])
			return
		}
		if strings.HasPrefix(each, "--") {
			continue
		}
		for _, c := range each[1:] {
			name := string(c)
			if c == 'o' || c == 'O' {
				if i++; i < len(args) {
					name = args[i]
				}
			}
			switch name {
			case "e", "errexit":
				s.errexit = on
			case "a", "allexport":
				s.allexport = on
			case "f", "noglob":
				s.noglob = on
			case "pipefail":
				s.pipefail = on
			case "n", "noexec", "posix", "k", "keyword", "B", "braceexpand", "lastpipe":
				giveUp()
			}
		}
	}
}

// trap notes what runs at the end. One on a signal never runs here.
func (r *run) trap(s *state, args []string) {
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 || strings.HasPrefix(args[0], "-") && args[0] != "-" {
		return
	}
	for i, each := range args {
		switch signal := strings.TrimPrefix(strings.ToUpper(each), "SIG"); {
		case i == 0 && len(args) > 1:
		case signal == "EXIT" || signal == "0":
			if s.trap = args[0]; s.trap == "-" || len(args) == 1 {
				s.trap = ""
			}
			if unknownText(s.trap) {
				giveUp()
			}
		case signal == "ERR" && strings.Contains(args[0], "exit"), signal == "DEBUG", signal == "RETURN", unknownText(each):
			giveUp()
		}
	}
}

// print follows echo and printf into what captures the output.
func (r *run) print(s *state, args []string) {
	if args[0] == "printf" && len(args) > 1 && args[1] == "-v" {
		r.smearAll(s, args[2:3])
		return
	}
	said := strings.Join(args[1:], " ")
	switch format := strings.Join(args[1:min(2, len(args))], ""); {
	case args[0] == "echo" && !strings.HasPrefix(said, "-") && !(r.posix && strings.Contains(said, `\`)):
		r.say(said + "\n")
	case format == "%s" || format == `%s\n`:
		for _, each := range append(args[2:], make([]string, b2i(len(args) == 2))...) {
			r.say(each + strings.TrimPrefix(format, "%s")[:0] + strings.Repeat("\n", b2i(format != "%s")))
		}
	case args[0] == "printf" && len(args) == 2 && !strings.ContainsAny(format, `%\-`):
		r.say(format)
	default:
		r.say(r.mark("$(...)"))
	}
}
