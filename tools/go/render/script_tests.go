package main

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"
)

// arithmetic is the value of an expression, and whether it is known.
func (r *run) arithmetic(s *state, expr syntax.ArithmExpr) (int, bool) {
	if expr == nil {
		return 0, true
	}
	if r.counts(s, expr) {
		n, err := expand.Arithm(r.config(s), expr)
		if err != nil {
			giveUp() // it ends a shell
		}
		return n, true
	}
	r.smear(s, expr)
	return 0, false
}

// counts says whether an expression is of plain numbers alone.
func (r *run) counts(s *state, expr syntax.ArithmExpr) bool {
	switch e := expr.(type) {
	case *syntax.ParenArithm:
		return r.counts(s, e.X)
	case *syntax.UnaryArithm:
		return r.counts(s, e.X)
	case *syntax.BinaryArithm:
		if e.Op == syntax.Assgn {
			word, ok := e.X.(*syntax.Word)
			return ok && syntax.ValidName(word.Lit()) && r.counts(s, e.Y)
		}
		return e.Op != syntax.Shl && e.Op != syntax.Shr && e.Op != syntax.Pow && r.counts(s, e.X) && r.counts(s, e.Y)
	case *syntax.Word:
		if len(e.Parts) != 1 {
			return false
		}
		name := e.Lit()
		if p, ok := e.Parts[0].(*syntax.ParamExp); ok && p.Index == nil && p.Exp == nil && p.Slice == nil && p.Repl == nil && !p.Length && !p.Excl {
			name = p.Param.Value
		} else if integer.MatchString(name) {
			return true
		}
		v := environment{r, s}.Get(name)
		if name == "" || v.Kind != expand.String || unknownText(v.Str) || syntax.ValidName(v.Str) {
			return false
		}
		if v.Str != "" && !integer.MatchString(v.Str) {
			giveUp() // it ends a shell
		}
		return true
	}
	return false
}

// matches says whether a value is of a pattern: 1, 0, or -1 where that is not known.
func (r *run) matches(s *state, value string, w *syntax.Word) int {
	said := r.expanded(s, w, one(expand.Pattern))[0]
	if said == "*" {
		return 1
	}
	expr, err := pattern.Regexp(said, pattern.EntireString)
	if err != nil || unknownText(said) || unknownText(value) || strings.Contains(said, "[") || !ascii(value) {
		return -1
	}
	return b2i(regexp.MustCompile(expr).MatchString(value))
}

// holds is the outcome of `[[ ... ]]`: 1, 0, or -1 where it is not known.
func (r *run) holds(s *state, expr syntax.TestExpr) int {
	switch e := expr.(type) {
	case *syntax.Word:
		return r.check([]string{r.literal(s, e)})
	case *syntax.ParenTest:
		return r.holds(s, e.X)
	case *syntax.UnaryTest:
		if e.Op == syntax.TsNot {
			if held := r.holds(s, e.X); held >= 0 {
				return 1 - held
			}
			return -1
		}
		word, _ := e.X.(*syntax.Word)
		return r.check([]string{e.Op.String(), r.literal(s, word)})
	case *syntax.BinaryTest:
		left, isWord := e.X.(*syntax.Word)
		right, _ := e.Y.(*syntax.Word)
		switch e.Op {
		case syntax.AndTest, syntax.OrTest:
			decides := b2i(e.Op == syntax.OrTest)
			first := r.holds(s, e.X)
			if first == decides {
				return first
			}
			second := r.holds(s, e.Y)
			if first == 1-decides || second == decides {
				return second
			}
		case syntax.TsMatch, syntax.TsMatchShort:
			return r.matches(s, r.literal(s, left), right)
		case syntax.TsNoMatch:
			if matched := r.matches(s, r.literal(s, left), right); matched >= 0 {
				return 1 - matched
			}
		default:
			if isWord {
				return r.check([]string{r.literal(s, left), e.Op.String(), r.literal(s, right)})
			}
		}
	}
	return -1
}

var ofNumbers = map[string]func(a, b int) bool{
	"-eq": func(a, b int) bool { return a == b },
	"-ne": func(a, b int) bool { return a != b },
	"-gt": func(a, b int) bool { return a > b },
	"-ge": func(a, b int) bool { return a >= b },
	"-lt": func(a, b int) bool { return a < b },
	"-le": func(a, b int) bool { return a <= b },
}

// check is the outcome of `[ ... ]`, given the words inside: 1, 0, or -1 where it is not known.
func (r *run) check(words []string) int {
	values := slices.Clone(words)
	for i, each := range values {
		if of := r.statusOf(each); of != nil && of.code >= 0 {
			values[i] = strconv.Itoa(of.code)
		} else if unknownText(each) {
			return -1
		}
	}
	switch len(values) {
	case 0:
		return 0
	case 1:
		return b2i(values[0] != "")
	case 2:
		switch values[0] {
		case "!":
			return b2i(values[1] == "")
		case "-n":
			return b2i(values[1] != "")
		case "-z":
			return b2i(values[1] == "")
		}
	case 3:
		switch compare := ofNumbers[values[1]]; {
		case values[1] == "=" || values[1] == "==":
			return b2i(values[0] == values[2])
		case values[1] == "!=":
			return b2i(values[0] != values[2])
		case compare != nil && integer.MatchString(values[0]) && integer.MatchString(values[2]):
			a, _ := strconv.Atoi(values[0])
			b, _ := strconv.Atoi(values[2])
			return b2i(compare(a, b))
		case values[0] == "!":
			if held := r.check(words[1:]); held >= 0 {
				return 1 - held
			}
		}
	case 4:
		if values[0] == "!" {
			if held := r.check(words[1:]); held >= 0 {
				return 1 - held
			}
		}
	}
	return -1
}

// outcome is the status of a test.
func (r *run) outcome(held int, by string) status {
	return status{[]int{anyCode, 1, 0}[held+1], held >= 0, "after", by}
}
