package main

import (
	"bufio"
	"encoding/json"
	"io"
	"maps"
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

// Exit codes that are not numbers.
const (
	anyCode = -1
	nonzero = -2
)

// status is how a command ended, and what set that last.
type status struct {
	code    int
	sure    bool // false where a program of which nothing is known is taken to have succeeded
	way, by string
}

type function struct {
	body   *syntax.Stmt
	source string
}

// state is a shell between two commands. Where paths of unknown outcome meet again, it is what all of them agree on.
type state struct {
	vars      map[string]expand.Variable // an unset variable that is here is known to be unset
	funcs     map[string]function
	params    []string
	status    status
	pipe      []status
	errexit   bool
	pipefail  bool
	allexport bool
	noglob    bool
	mixed     bool // options or a trap are set on some paths alone
	partial   bool // more variables may be set
	trap      string
	failed    bool // a program that launches ran
	followed  bool // one of which nothing is known ran behind it
	dead      bool // no path comes here
}

func (s *state) clone() *state {
	c := *s
	c.vars, c.funcs = maps.Clone(s.vars), maps.Clone(s.funcs)
	c.params, c.pipe = slices.Clone(s.params), slices.Clone(s.pipe)
	return &c
}

// mark stands in a value for what nobody knows: one rune of a private plane, so that no expansion takes it apart.
type mark struct {
	text   string  // as the script has it
	status *status // the exit code or job that it stands for
}

const firstMark = 0xF0000

// many stands in a word that may be any number of words.
const many = string(rune(firstMark))

// run follows one script.
type run struct {
	request   *request
	posix     bool // sh may be bash in one image and dash in another
	source    string
	until     time.Time
	steps     int
	depth     int
	tested    int // above zero where the exit code is asked for, so that set -e does not act
	uncertain int // above zero where a condition of unknown outcome decides
	captured  int
	inPipe    bool
	lost      bool // what is expanded depends on files
	substInto *strings.Builder
	subst     *status // of the last command substitution
	asked     map[string]bool
	marks     []mark
	markOf    map[string]string
	ends      []*state
	loops     []*loop
	frame     *frame
	path      string // of the calls of functions
	found     []*command
	index     map[place]*command
}

type loop struct{ broken, continued []*state }

type frame struct {
	returned []*state
	locals   map[string]*expand.Variable
}

func newFrame() *frame { return &frame{locals: map[string]*expand.Variable{}} }

type place struct {
	node syntax.Node
	path string
}

type unknown struct{}

// giveUp ends the reading of a script of which nobody can tell.
func giveUp() { panic(unknown{}) }

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
	r := &run{request: asked, until: time.Now().Add(scriptTime), markOf: map[string]string{}, index: map[place]*command{}}
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
	s := &state{vars: map[string]expand.Variable{}, funcs: map[string]function{}, status: status{sure: true}}
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

// step is taken for each statement.
func (r *run) step() {
	r.steps++
	if r.steps > stepCount || time.Now().After(r.until) {
		giveUp()
	}
}

func (r *run) stmts(s *state, stmts []*syntax.Stmt) {
	for _, st := range stmts {
		r.stmt(s, st)
	}
}

func (r *run) stmt(s *state, st *syntax.Stmt) {
	if s.dead {
		return
	}
	r.step()
	if r.depth++; r.depth > nesting {
		giveUp()
	}
	defer func() { r.depth-- }()
	if st.Coprocess || st.Disown || st.Background && st.Negated {
		giveUp()
	}
	if st.Background {
		r.background(s, st)
		return
	}
	output := r.substInto
	for _, redirect := range st.Redirs {
		r.redirect(redirect)
	}
	if st.Negated {
		r.tested++
	}
	if st.Cmd == nil {
		s.having(status{sure: true, way: "after", by: "redirection"})
	} else {
		r.cmd(s, st.Cmd)
	}
	r.substInto = output
	if st.Negated {
		r.tested--
		if code := s.status.code; !s.dead && code != anyCode {
			s.having(status{b2i(code == 0), s.status.sure, "not", r.shown(lastPart(st.Cmd))})
		}
		return
	}
	r.errexit(s, st.Cmd)
}

// errexit is what set -e makes of a failure that nobody asks for.
func (r *run) errexit(s *state, cmd syntax.Command) {
	switch c := cmd.(type) {
	case *syntax.Block, *syntax.IfClause, *syntax.WhileClause, *syntax.ForClause, *syntax.CaseClause, *syntax.TimeClause:
		return
	case *syntax.BinaryCmd:
		if c.Op == syntax.AndStmt || c.Op == syntax.OrStmt {
			return
		}
	}
	switch {
	case s.dead || !s.errexit || r.tested > 0 || s.status.code == 0:
	case s.status.code == anyCode:
		other := s.clone()
		other.status.code = nonzero
		r.exit(other)
		s.status.code = 0
	default:
		r.exit(s)
	}
}

func (r *run) exit(s *state) {
	if r.ends = append(r.ends, s.clone()); len(r.ends) > commandCount {
		giveUp()
	}
	s.dead = true
}

func (s *state) having(now status) { s.status, s.pipe = now, []status{now} }

func (r *run) redirect(redirect *syntax.Redirect) {
	n := ""
	if redirect.N != nil {
		n = redirect.N.Value
	}
	switch {
	case r.substInto == nil || n == "2" || n == "0" || redirect.Op == syntax.RdrIn || redirect.Hdoc != nil:
	case n != "" && n != "1":
		r.say(r.mark(n))
	case redirect.Op != syntax.WordHdoc:
		r.substInto = &strings.Builder{}
	}
}

func (r *run) background(s *state, st *syntax.Stmt) {
	foreground := *st
	foreground.Background = false
	end := r.apart(s, func(sub *state) {
		tested := r.tested
		r.tested = 0
		r.stmt(sub, &foreground)
		r.tested = tested
	})
	if end.dead {
		end.status.code = anyCode
	}
	s.failed, s.followed = end.failed, end.followed
	s.having(status{sure: true, way: "background", by: r.shown(foreground.Cmd)})
	job := end.status
	s.vars["!"] = expand.Variable{Set: true, Kind: expand.String, Str: r.markFor(mark{"$!", &job})}
}

func (r *run) cmd(s *state, cmd syntax.Command) {
	switch c := cmd.(type) {
	case *syntax.CallExpr:
		r.simple(s, c)
	case *syntax.DeclClause:
		r.declare(s, c)
	case *syntax.Block:
		r.stmts(s, c.Stmts)
	case *syntax.Subshell:
		s.back(r.apart(s, func(sub *state) { r.stmts(sub, c.Stmts) }))
	case *syntax.BinaryCmd:
		if c.Op == syntax.AndStmt || c.Op == syntax.OrStmt {
			r.chain(s, c)
		} else {
			r.pipeline(s, c)
		}
	case *syntax.IfClause:
		r.ifClause(s, c, r.shown(c.Cond[0].Cmd))
	case *syntax.WhileClause:
		by := r.shown(append(slices.Clone(c.Cond), c.Do...)[0].Cmd)
		cond := func(s *state) {
			r.test(func() { r.stmts(s, c.Cond) })
			if c.Until && s.status.code != anyCode {
				s.status.code = b2i(s.status.code == 0)
			}
		}
		r.loop(s, by, cond, func(s *state) { r.stmts(s, c.Do) }, func(*state) {})
	case *syntax.ForClause:
		r.forClause(s, c)
	case *syntax.CaseClause:
		r.caseClause(s, c)
	case *syntax.FuncDecl:
		s.funcs[c.Name.Value] = function{c.Body, r.source}
		s.having(status{sure: true, way: "after", by: c.Name.Value + "()"})
	case *syntax.TestClause:
		s.having(r.outcome(r.holds(s, c.X), r.text(c)))
	case *syntax.ArithmCmd:
		n, known := r.arithmetic(s, c.X)
		s.having(r.outcome(tri(n != 0, known), r.text(c)))
	case *syntax.LetClause:
		last := -1
		for _, expr := range c.Exprs {
			n, known := r.arithmetic(s, expr)
			last = tri(n != 0, known)
		}
		s.having(r.outcome(last, r.text(c)))
	case *syntax.TimeClause:
		if c.Stmt != nil {
			r.stmt(s, c.Stmt)
		}
	default:
		giveUp()
	}
}

// test does what is asked for its exit code.
func (r *run) test(asked func()) {
	r.tested++
	asked()
	r.tested--
}

// either follows both ways, and leaves what they agree on. The first is what runs unless something fails.
func (r *run) either(s *state, certain bool, success, failure func(*state)) {
	r.say(r.mark("$?"))
	before, other := r.uncertain, s.clone()
	s.status.code, other.status.code = 0, nonzero
	r.uncertain += b2i(!certain)
	success(s)
	r.uncertain = before + 1
	failure(other)
	r.uncertain = before
	r.join(s, other)
}

// branch follows the way that the last exit code leads, or both.
func (r *run) branch(s *state, certain bool, success, failure func(*state)) {
	switch {
	case s.dead:
	case s.status.code == anyCode:
		r.either(s, certain, success, failure)
	case s.status.code == 0:
		success(s)
	default:
		failure(s)
	}
}

func (r *run) chain(s *state, c *syntax.BinaryCmd) {
	r.test(func() { r.stmt(s, c.X) })
	stay := func(*state) {}
	if c.Op == syntax.AndStmt {
		_, tests := c.X.Cmd.(*syntax.TestClause)
		if call, ok := lastPart(c.X.Cmd).(*syntax.CallExpr); ok && len(call.Args) > 0 {
			tests = tests || slices.Contains([]string{"[", "test"}, call.Args[0].Lit())
		}
		r.branch(s, !tests, func(s *state) { r.stmt(s, c.Y) }, stay)
		return
	}
	r.branch(s, true, stay, func(s *state) {
		r.stmt(s, c.Y)
		if s.status.way == "after" {
			s.status.way, s.status.by = "or", r.shown(c.Y.Cmd)
		}
	})
}

func (r *run) ifClause(s *state, c *syntax.IfClause, asked string) {
	if len(c.Cond) == 0 { // else
		r.stmts(s, c.Then)
		return
	}
	r.test(func() { r.stmts(s, c.Cond) })
	r.branch(s, false, func(s *state) { r.stmts(s, c.Then) }, func(s *state) {
		if c.Else == nil {
			s.having(status{sure: true, way: "condition", by: asked})
		} else {
			r.ifClause(s, c.Else, asked)
		}
	})
}

// loop follows a loop as it is, and after some rounds takes what a round changes for unknown.
func (r *run) loop(s *state, by string, cond, body, post func(*state)) {
	mine := &loop{}
	r.loops = append(r.loops, mine)
	uncertain, left := r.uncertain, &state{dead: true}
	last := status{sure: true, way: "condition", by: by}
	for round := 0; !s.dead; round++ {
		head := s.clone()
		if cond(s); len(mine.continued) > 0 || round > 2*rounds { // in the condition itself
			giveUp()
		}
		r.branch(s, true, func(*state) {}, func(s *state) {
			gone := s.clone()
			gone.having(last)
			r.join(left, gone)
			s.dead = true
		})
		if r.uncertain = uncertain; !left.dead || round >= rounds {
			r.uncertain++
			r.say(r.mark("$?"))
		}
		body(s)
		if !s.dead {
			last = s.status
		}
		r.joinAll(s, mine.continued)
		mine.continued = nil
		if !s.dead {
			post(s)
		}
		if round >= rounds || !left.dead {
			r.join(s, head)
			s.dead = round > 0 && equal(s, head)
		}
	}
	r.uncertain = uncertain
	*s = *left
	r.joinAll(s, mine.broken)
	r.loops = r.loops[:len(r.loops)-1]
}

func (r *run) joinAll(s *state, others []*state) {
	for _, other := range others {
		r.join(s, other)
	}
}

func (r *run) forClause(s *state, c *syntax.ForClause) {
	do := func(s *state) { r.stmts(s, c.Do) }
	switch each := c.Loop.(type) {
	case *syntax.CStyleLoop:
		value := func(s *state, expr syntax.ArithmExpr) int {
			if expr == nil {
				return 1
			}
			n, known := r.arithmetic(s, expr)
			return tri(n != 0, known)
		}
		value(s, each.Init)
		cond := func(s *state) { s.having(r.outcome(value(s, each.Cond), r.text(each))) }
		r.loop(s, r.shown(c.Do[0].Cmd), cond, do, func(s *state) { value(s, each.Post) })
	case *syntax.WordIter:
		items, name, i := slices.Clone(s.params), each.Name.Value, 0
		if each.InPos.IsValid() {
			items = r.fields(s, each.Items)
		}
		some := c.Select || len(items) > rounds || slices.ContainsFunc(items, unknownText)
		cond := func(s *state) {
			switch {
			case some:
				r.set(s, name, r.mark("$"+name))
				s.having(status{code: anyCode})
			case i < len(items):
				r.set(s, name, items[i])
				s.having(status{})
				i++
			default:
				s.having(status{code: 1})
			}
		}
		r.loop(s, r.shown(c.Do[0].Cmd), cond, do, func(*state) {})
	}
}

func (r *run) caseClause(s *state, c *syntax.CaseClause) {
	value := r.literal(s, c.Word)
	r.arms(s, s.status, value, c.Items)
}

func (r *run) arms(s *state, before status, value string, items []*syntax.CaseItem) {
	if s.having(status{sure: true, way: "condition", by: "case"}); len(items) == 0 || s.dead {
		return
	}
	if items[0].Op != syntax.Break {
		giveUp()
	}
	matches := 0
	for _, pattern := range items[0].Patterns {
		if one := r.matches(s, value, pattern); one == 1 || one < 0 && matches == 0 {
			matches = one
		}
	}
	took := func(s *state) {
		if len(items[0].Stmts) > 0 {
			s.status = before
			r.stmts(s, items[0].Stmts)
		}
	}
	next := func(s *state) { r.arms(s, before, value, items[1:]) }
	switch matches {
	case 1:
		took(s)
	case 0:
		next(s)
	default:
		r.either(s, false, func(s *state) { s.status.code = 0; took(s) }, next)
	}
}

func parts(st *syntax.Stmt) []*syntax.Stmt {
	if c, ok := st.Cmd.(*syntax.BinaryCmd); ok && !st.Negated && len(st.Redirs) == 0 && (c.Op == syntax.Pipe || c.Op == syntax.PipeAll) {
		return append(parts(c.X), c.Y)
	}
	return []*syntax.Stmt{st}
}

func lastPart(cmd syntax.Command) syntax.Command {
	if c, ok := cmd.(*syntax.BinaryCmd); ok {
		return lastPart(c.Y.Cmd)
	}
	return cmd
}

func (r *run) pipeline(s *state, c *syntax.BinaryCmd) {
	all := append(parts(c.X), c.Y)
	pipe, before := make([]status, len(all)), s.clone()
	for i, part := range all {
		output, inPipe := r.substInto, r.inPipe
		if r.inPipe = i > 0; i < len(all)-1 {
			r.substInto = nil
		}
		end := r.apart(before, func(sub *state) { r.stmt(sub, part) })
		r.substInto, r.inPipe = output, inPipe
		s.failed, s.followed, s.dead = s.failed || end.failed, s.followed || end.followed, s.dead || end.dead
		pipe[i] = end.status
	}
	own := pipe[len(pipe)-1]
	own.way, own.by = "pipe", r.shown(c.Y.Cmd)
	for i := len(pipe) - 1; s.pipefail && i >= 0; i-- {
		if pipe[i].code != 0 {
			own = pipe[i]
			break
		}
	}
	s.status, s.pipe = own, pipe
}

// apart follows a shell of its own, which leaves nothing behind but its exit code.
func (r *run) apart(s *state, body func(*state)) *state {
	ends, loops, frame := r.ends, r.loops, r.frame
	r.ends, r.loops = nil, nil
	sub := s.clone()
	if sub.trap = ""; frame != nil {
		r.frame = newFrame()
	}
	delete(sub.vars, "!")
	body(sub)
	if frame != nil {
		r.ends = append(r.ends, r.frame.returned...)
	}
	end := &state{dead: true}
	for _, each := range r.finish(sub) {
		each.dead = false
		r.join(end, each)
	}
	r.ends, r.loops, r.frame = ends, loops, frame
	return end
}

func (s *state) back(end *state) {
	s.failed, s.followed, s.dead = end.failed, end.followed, end.dead
	s.mixed = s.mixed || end.mixed
	s.having(end.status)
}

// finish gives the ends of a shell, behind its trap on EXIT.
func (r *run) finish(s *state) (ends []*state) {
	if !s.dead {
		r.exit(s)
	}
	left := r.ends
	for _, each := range left {
		if each.trap == "" {
			ends = append(ends, each)
			continue
		}
		text, before := each.trap, each.status
		r.ends, each.trap = nil, ""
		r.uncertain += b2i(each.mixed)
		r.eval(each, text)
		r.uncertain -= b2i(each.mixed)
		if !each.dead {
			each.status = before
			ends = append(ends, each)
		}
		for _, exited := range r.ends {
			exited.status.way, exited.status.by = "trap", text
			ends = append(ends, exited)
		}
	}
	r.ends = nil
	return ends
}

// eval follows a text as a part of the script.
func (r *run) eval(s *state, text string) {
	source, depth := r.source, r.depth
	file := r.parse(text)
	if r.depth++; r.depth > nesting || r.posix && onlyBash(text, file) {
		giveUp()
	}
	r.source = text
	r.stmts(s, file.Stmts)
	r.source, r.depth = source, depth
}

// join leaves in s what it and another path agree on.
func (r *run) join(s, other *state) {
	if other.dead {
		return
	}
	if s.dead {
		*s = *other.clone()
		return
	}
	for name, v := range other.vars {
		if mine, ok := s.vars[name]; !ok || !same(mine, v) {
			s.vars[name] = r.vague(name, mine.Exported || v.Exported)
		}
	}
	for name, mine := range s.vars {
		if _, ok := other.vars[name]; !ok {
			s.vars[name] = r.vague(name, mine.Exported)
		}
	}
	for name, f := range other.funcs {
		if s.funcs[name] != f {
			s.funcs[name] = function{}
		}
	}
	for name, f := range s.funcs {
		if other.funcs[name] != f {
			s.funcs[name] = function{}
		}
	}
	if !slices.Equal(s.params, other.params) {
		if len(s.params) != len(other.params) {
			giveUp()
		}
		for i := range s.params {
			if s.params[i] != other.params[i] {
				s.params[i] = r.mark("$" + string(rune('1'+i)))
			}
		}
	}
	if s.allexport != other.allexport {
		giveUp()
	}
	same := s.errexit == other.errexit && s.pipefail == other.pipefail
	if s.mixed = s.mixed || other.mixed || !same || s.trap != other.trap; s.trap == "" {
		s.trap = other.trap
	} else if other.trap != "" && other.trap != s.trap {
		giveUp()
	}
	s.errexit, s.pipefail = s.errexit || other.errexit, s.pipefail || other.pipefail
	s.partial, s.noglob = s.partial || other.partial, s.noglob && other.noglob
	now := s.status
	if other.failed && !s.failed || other.failed == s.failed && now.sure && !other.status.sure {
		now = other.status
	}
	switch a, b := s.status.code, other.status.code; {
	case a == b:
	case a != 0 && a != anyCode && b != 0 && b != anyCode:
		now.code = nonzero
	default:
		now.code = anyCode
	}
	s.failed, s.followed = s.failed || other.failed, s.followed || other.followed
	s.having(now)
}

// equal says whether one more round of a loop changes nothing.
func equal(a, b *state) bool {
	return maps.EqualFunc(a.vars, b.vars, same) && slices.Equal(a.params, b.params) && maps.Equal(a.funcs, b.funcs) &&
		a.failed == b.failed && a.followed == b.followed && a.partial == b.partial && a.status.code == b.status.code &&
		a.errexit == b.errexit && a.pipefail == b.pipefail && a.mixed == b.mixed
}

func same(a, b expand.Variable) bool {
	return a.Set == b.Set && a.Exported == b.Exported && a.Kind == b.Kind && a.Str == b.Str && slices.Equal(a.List, b.List)
}

// vague is a variable that is set to what nobody knows.
func (r *run) vague(name string, exported bool) expand.Variable {
	return expand.Variable{Set: true, Exported: exported, Kind: expand.String, Str: r.mark("$" + name)}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// tri is 1 for what holds, 0 for what does not, -1 for what is not known.
func tri(holds, known bool) int {
	if !known {
		return -1
	}
	return b2i(holds)
}
