package main

import (
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

const firstMark = 0xF0000

// many stands in a word that may be any number of words.
const many = string(rune(firstMark))

// ofShell are the variables that a shell, an image or a kubelet sets, whatever a manifest says.
var ofShell = regexp.MustCompile(`^(BASH.*|COLUMNS|COMP_.*|DIRSTACK|EPOCH.*|E?UID|FUNCNAME|GROUPS|HOME|HOST.*|LANG|LC_.*|LINES|MACHTYPE|` +
	`OLDPWD|OPT.*|OSTYPE|PATH|PPID|PS4|PWD|RANDOM|SECONDS|SHELL.*|SHLVL|SRANDOM|TERM|USER|_|[$!-])$`)

// integer is a number that every shell reads alike.
var integer = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,17})$`)

func isMark(c rune) bool { return c >= firstMark }

func isMany(text string) bool { return strings.Contains(text, many) }

func unknownText(text string) bool { return strings.ContainsFunc(text, isMark) }

func (r *run) mark(text string) string {
	if r.markOf[text] == "" {
		r.markOf[text] = r.markFor(mark{text: text})
	}
	return r.markOf[text]
}

func (r *run) markFor(m mark) string {
	if r.marks = append(r.marks, m); len(r.marks) > 0x10000 {
		giveUp()
	}
	return string(rune(firstMark + len(r.marks) - 1))
}

// given is a text from outside.
func (r *run) given(text string) string {
	if unknownText(text) || len(text) > valueBytes {
		giveUp()
	}
	return text
}

// written is a value with what the script has in place of what nobody knows.
func (r *run) written(text string) string {
	if !unknownText(text) {
		return text
	}
	var b strings.Builder
	for _, c := range text {
		if isMark(c) {
			b.WriteString(r.marks[c-firstMark].text)
		} else {
			b.WriteRune(c)
		}
	}
	return b.String()
}

// statusOf is the exit code or job that a value stands for.
func (r *run) statusOf(text string) *status {
	if runes := []rune(text); len(runes) == 1 && isMark(runes[0]) {
		return r.marks[runes[0]-firstMark].status
	}
	return nil
}

// environment is what expansions read and set.
type environment struct {
	r *run
	s *state
}

func text(value string) expand.Variable {
	return expand.Variable{Set: true, Kind: expand.String, Str: value}
}

func (e environment) code(now status) string {
	if now.code >= 0 && now.sure {
		return strconv.Itoa(now.code)
	}
	return e.r.markFor(mark{"$?", &now})
}

func (e environment) Get(name string) expand.Variable {
	switch v, ok := e.s.vars[name]; {
	case ok:
		return v
	case name == "#":
		if slices.ContainsFunc(e.s.params, isMany) {
			return text(e.r.mark("$#"))
		}
		return text(strconv.Itoa(len(e.s.params)))
	case name == "@" || name == "*":
		return expand.Variable{Set: true, Kind: expand.Indexed, List: append([]string{}, e.s.params...)}
	case name == "?":
		return text(e.code(e.s.status))
	case name == "PIPESTATUS":
		if e.s.pipe == nil {
			giveUp()
		}
		list := expand.Variable{Set: true, Kind: expand.Indexed}
		for _, each := range e.s.pipe {
			list.List = append(list.List, e.code(each))
		}
		return list
	case name == "IFS":
		return expand.Variable{}
	}
	if n, err := strconv.Atoi(name); err == nil && n > 0 {
		switch before := e.s.params[:min(n, len(e.s.params))]; {
		case slices.ContainsFunc(before, isMany):
			return text(e.r.mark("$" + name))
		case n <= len(before):
			return text(before[n-1])
		}
		return expand.Variable{}
	}
	if e.s.partial || ofShell.MatchString(name) || !e.r.asked[name] {
		return text(e.r.mark("$" + name))
	}
	return expand.Variable{}
}

func (e environment) Set(name string, v expand.Variable) error {
	e.r.set(e.s, name, v.Str)
	return nil
}

func (e environment) Each(f func(string, expand.Variable) bool) {
	for name, v := range e.s.vars {
		if !f(name, v) {
			return
		}
	}
}

// set gives a variable a value, and leaves whether it is exported.
func (r *run) set(s *state, name, value string) {
	if s.vars[name].Kind == expand.Indexed {
		giveUp()
	}
	v := text(r.sized(value))
	v.Exported, v.Local = s.vars[name].Exported || s.allexport, s.vars[name].Local && !s.allexport
	r.assign(s, name, v)
}

func (r *run) assign(s *state, name string, v expand.Variable) {
	if s.vars[name].ReadOnly {
		giveUp()
	}
	s.vars[name] = v
}

func (r *run) sized(value string) string {
	if len(value) > valueBytes {
		giveUp()
	}
	return value
}

func (r *run) config(s *state) *expand.Config {
	config := &expand.Config{
		Env: environment{r, s},
		CmdSubst: func(w io.Writer, subst *syntax.CmdSubst) error {
			_, err := io.WriteString(w, r.substituted(s, subst))
			return err
		},
		ProcSubst: func(subst *syntax.ProcSubst) (string, error) { return r.mark(r.text(subst)), nil },
	}
	if !s.noglob {
		config.ReadDir2 = func(string) ([]fs.DirEntry, error) { r.lost = true; return nil, nil }
	}
	return config
}

// substituted is the output of a command substitution.
func (r *run) substituted(s *state, subst *syntax.CmdSubst) string {
	output, tested, lost, asked := r.substInto, r.tested, r.lost, r.asked
	r.substInto, r.tested = &strings.Builder{}, 0
	r.captured++
	end := r.apart(s, func(sub *state) {
		sub.errexit = sub.errexit && r.posix
		r.stmts(sub, subst.Stmts)
		if len(subst.Stmts) == 1 && subst.Stmts[0].Cmd == nil {
			r.say(r.mark("<"))
		}
	})
	r.captured--
	said := r.sized(r.substInto.String())
	r.substInto, r.tested, r.lost, r.asked = output, tested, lost, asked
	if s.failed, s.followed = end.failed, end.followed; end.dead {
		giveUp()
	}
	if r.subst = &end.status; unknownText(said) {
		return r.mark(r.text(subst))
	}
	return said
}

// say writes to what captures the output, if anything does.
func (r *run) say(output string) {
	if r.substInto != nil {
		r.substInto.WriteString(r.sized(output))
		r.sized(r.substInto.String())
	}
}

// text is a part of the script as it is written.
func (r *run) text(node syntax.Node) string {
	from, to := int(node.Pos().Offset()), int(node.End().Offset())
	if from > to || to > len(r.source) {
		return "..."
	}
	return strings.Join(strings.Fields(r.source[from:to]), " ")
}

// shown is the first simple command of a part of the script.
func (r *run) shown(cmd syntax.Command) (found string) {
	found = "..."
	if cmd == nil {
		return found
	}
	first := true
	syntax.Walk(cmd, func(node syntax.Node) bool {
		switch node.(type) {
		case *syntax.CallExpr, *syntax.DeclClause, *syntax.TestClause:
			if first {
				found, first = r.text(node), false
			}
		}
		return first
	})
	return found
}
