package main

import (
	"bufio"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// The bounds of one script. A command line that a person wrote has a thousandth of each.
const (
	scriptBytes  = 32 << 10
	valueBytes   = 64 << 10
	stepCount    = 20_000
	commandCount = 1_000
	nesting      = 200
	scriptTime   = 500 * time.Millisecond
	// rounds is how often a loop is followed as it is, before what it changes counts as unknown.
	rounds = 16
	// mostBrackets bounds how deep the parser calls itself.
	mostBrackets = 16_000
)

// request is a script, and what is known of the shell that it is given to.
type request struct {
	Script    string             `json:"script"`
	Shell     string             `json:"shell"`
	Options   []string           `json:"options"`
	Arguments []word             `json:"arguments"`
	Env       map[string]*string `json:"env"`      // null: set to what nobody knows
	Complete  bool               `json:"complete"` // false: more variables may be set
	// Programs is given where the exit code is asked for: what some command lines are, by their words joined with NUL.
	Programs map[string]program `json:"programs"`
}

// program says that a command line launches, and so fails, or that it gives a script to a shell.
type program struct {
	Launches bool     `json:"launches"`
	Script   *request `json:"script"`
}

// word is a word as far as it is known, and whether all of it is.
type word struct {
	Text  string `json:"text"`
	Known bool   `json:"known"`
}

// reply says what a script runs, or, for a request with programs, how it may end. Known is false where nobody can tell.
type reply struct {
	Known    bool       `json:"known"`
	Commands []*command `json:"commands"`
	Ends     []end      `json:"ends"`
}

// command is one call of a program or builtin, with what the script changed in the environment that it has.
type command struct {
	Words    []word             `json:"words"`
	Set      map[string]*string `json:"set"`
	Unset    []string           `json:"unset"`
	Complete bool               `json:"complete"`
	Certain  bool               `json:"certain"`
}

// end is one way in which a script ends once a program that launches has failed.
type end struct {
	Code     int    `json:"code"`
	Sure     bool   `json:"sure"`
	Way      string `json:"way"`
	By       string `json:"by"`
	Followed bool   `json:"followed"`
}

// serveScripts answers each line of JSON, a request, with another, a reply.
func serveScripts(requests io.Reader, output io.Writer) error {
	lines := bufio.NewScanner(requests)
	lines.Buffer(nil, 16<<20)
	encoder := json.NewEncoder(output)
	encoder.SetEscapeHTML(false)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			return err
		}
		if err := encoder.Encode(follow(&asked)); err != nil {
			return err
		}
	}
	return lines.Err()
}

// follow answers one request. The libraries panic on some odd input: that is unknown, too.
func follow(asked *request) (told reply) {
	defer func() {
		if recover() != nil {
			told = reply{}
		}
	}()
	r := &run{request: asked, until: spent() + scriptTime, markOf: map[string]string{}, index: map[place]*command{}}
	r.marks = []mark{{}} // many
	ends := r.script(asked, &state{})
	told = reply{Known: true, Commands: r.found}
	for _, s := range ends {
		if s.failed {
			if s.mixed {
				s.status.code = anyCode
			}
			told.Ends = append(told.Ends, end{s.status.code, s.status.sure, s.status.way, r.written(s.status.by), s.followed})
		}
	}
	return told
}

// exits says whether the exit code is asked for, and not the commands.
func (r *run) exits() bool { return r.request.Programs != nil }

// script follows a whole shell, and gives the states in which it may end.
func (r *run) script(asked *request, before *state) []*state {
	file := r.parse(asked.Script)
	outer := *r
	r.posix, r.source = asked.Shell != "bash", asked.Script
	if foreign := r.posix && onlyBash(asked.Script, file) || strings.Contains(asked.Script, "\r"); foreign {
		if r.exits() {
			giveUp()
		}
		before.partial, r.uncertain = true, 1
		defer r.forget()
	}
	s := &state{vars: map[string]expand.Variable{}, funcs: map[string]function{}, status: status{sure: true}, pipe: []status{}}
	s.failed, s.followed, s.partial = before.failed, before.followed, before.partial || !asked.Complete
	for name, value := range asked.Env {
		text := r.mark("$" + name)
		if value != nil {
			text = r.given(*value)
		}
		s.vars[name] = expand.Variable{Set: true, Exported: true, Kind: expand.String, Str: text}
	}
	for name, v := range before.vars { // of a script within a script
		if v.Exported {
			s.vars[name] = v
		}
	}
	for i, argument := range asked.Arguments {
		text := r.given(argument.Text)
		if !argument.Known {
			text = r.mark(argument.Text)
		}
		if s.params = append(s.params, text); i == 0 {
			s.vars["0"] = expand.Variable{Set: true, Kind: expand.String, Str: text}
			s.params = s.params[:0]
		}
	}
	r.options(s, asked.Options)
	r.ends, r.loops, r.frame, r.tested = nil, nil, nil, 0
	r.stmts(s, file.Stmts)
	ends := r.finish(s)
	r.posix, r.source, r.ends, r.loops, r.frame, r.tested = outer.posix, outer.source, outer.ends, outer.loops, outer.frame, outer.tested
	return ends
}

// forget takes back what is known of every word: one shell runs the script, another stops at its grammar.
func (r *run) forget() {
	for _, each := range r.found {
		for i := range each.Words {
			each.Words[i].Known = false
		}
	}
}

func (r *run) parse(text string) *syntax.File {
	brackets := strings.Count(text, "(") + strings.Count(text, "{") + strings.Count(text, "`") + strings.Count(text, "!")
	brackets += strings.Count(text, "[") + len(strings.Fields(text))/2
	if len(text) > scriptBytes || brackets > mostBrackets || strings.ContainsFunc(text, isMark) {
		giveUp()
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		giveUp()
	}
	return file
}

// onlyBash says whether a script has what dash(1) does not know, or reads otherwise.
func onlyBash(text string, file *syntax.File) bool {
	_, err := syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).Parse(strings.NewReader(text), "")
	found := err != nil
	syntax.Walk(file, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.TestClause, *syntax.ArithmCmd, *syntax.LetClause, *syntax.TimeClause:
			found = true
		case *syntax.SglQuoted:
			found = found || n.Dollar
		case *syntax.DblQuoted:
			found = found || n.Dollar
		case *syntax.Redirect:
			found = found || n.Op == syntax.RdrAll || n.Op == syntax.AppAll
		case *syntax.Assign:
			found = found || n.Append || n.Name == nil && strings.HasPrefix(n.Value.Lit(), "-")
		case *syntax.DeclClause:
			found = found || n.Variant.Value == "declare" || n.Variant.Value == "typeset"
		case *syntax.CallExpr:
			for _, each := range n.Args {
				lit, braces := each.Lit(), *each
				found = found || syntax.SplitBraces(&braces) || lit == "pipefail" || lit == "==" && n.Args[0].Lit() == "["
			}
			found = found || len(n.Args) > 0 && slices.Contains([]string{"source", "alias"}, n.Args[0].Lit())
		}
		return !found
	})
	return found
}
