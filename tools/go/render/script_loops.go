package main

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

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
			gone.status = last
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

func (r *run) forClause(s *state, c *syntax.ForClause) {
	var before status // of the command before the round: its first command sees it
	do := func(s *state) {
		s.status = before
		r.stmts(s, c.Do)
	}
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
		cond := func(s *state) { before, s.status = s.status, r.outcome(value(s, each.Cond), r.text(each)) }
		r.loop(s, r.shown(c.Do[0].Cmd), cond, do, func(s *state) { value(s, each.Post) })
	case *syntax.WordIter:
		items, name, i := slices.Clone(s.params), each.Name.Value, 0
		if each.InPos.IsValid() {
			items = r.fields(s, each.Items)
		}
		some := c.Select || len(items) > rounds || slices.ContainsFunc(items, unknownText)
		cond := func(s *state) {
			before = s.status
			switch {
			case some:
				r.set(s, name, r.mark("$"+name))
				s.status = status{code: anyCode}
			case i < len(items):
				r.set(s, name, items[i])
				s.status = status{}
				i++
			default:
				s.status = status{code: 1}
			}
		}
		r.loop(s, r.shown(c.Do[0].Cmd), cond, do, func(*state) {})
	}
}
