package main

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

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
			s.status = status{b2i(code == 0), s.status.sure, "not", r.shown(lastPart(st.Cmd))}
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
	s.status = status{sure: true, way: "background", by: r.shown(foreground.Cmd)}
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
		s.status = status{sure: true, way: "after", by: c.Name.Value + "()"}
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
			s.status = status{sure: true, way: "condition", by: asked}
		} else {
			r.ifClause(s, c.Else, asked)
		}
	})
}

func (r *run) caseClause(s *state, c *syntax.CaseClause) {
	value := r.literal(s, c.Word)
	r.arms(s, s.status, value, c.Items)
}

func (r *run) arms(s *state, before status, value string, items []*syntax.CaseItem) {
	if s.status = (status{sure: true, way: "condition", by: "case"}); len(items) == 0 || s.dead {
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
