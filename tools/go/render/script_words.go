package main

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// fields are the words of a command line.
func (r *run) fields(s *state, words []*syntax.Word) (found []string) {
	for _, w := range words {
		each := r.expanded(s, w, expand.Fields)
		for i := range each {
			if unknownText(each[i]) && !quoted(w) && r.statusOf(each[i]) == nil {
				each[i] += many
			}
		}
		found = append(found, each...)
		if len(found) > valueBytes/8 {
			giveUp()
		}
	}
	return found
}

// literal is a word that is not split.
func (r *run) literal(s *state, w *syntax.Word) string {
	if w == nil {
		return ""
	}
	return strings.ReplaceAll(r.expanded(s, w, one(expand.Literal))[0], many, r.mark(""))
}

func one(by func(*expand.Config, *syntax.Word) (string, error)) func(*expand.Config, ...*syntax.Word) ([]string, error) {
	return func(config *expand.Config, all ...*syntax.Word) ([]string, error) {
		value, err := by(config, all[0])
		return []string{value}, err
	}
}

// unescaped is a word whose escaped characters are quoted ones, which the library expands alike everywhere.
func unescaped(w *syntax.Word) *syntax.Word {
	var parts []syntax.WordPart
	for _, part := range w.Parts {
		lit, ok := part.(*syntax.Lit)
		for i := 0; ok && strings.Contains(lit.Value, `\`); i++ {
			before, after, _ := strings.Cut(lit.Value, `\`)
			_, size := utf8.DecodeRuneInString(after)
			parts = append(parts, &syntax.Lit{Value: before}, &syntax.SglQuoted{Value: after[:size]})
			lit = &syntax.Lit{Value: after[size:]}
			part = lit
		}
		parts = append(parts, part)
	}
	return &syntax.Word{Parts: parts}
}

func (r *run) expanded(s *state, w *syntax.Word, by func(*expand.Config, ...*syntax.Word) ([]string, error)) []string {
	w = unescaped(w)
	if r.step(); r.plain(s, w, w.Parts) {
		r.lost = false
		found, err := by(r.config(s), w)
		r.asked = nil
		if err != nil {
			giveUp() // it ends a shell
		}
		if !r.lost {
			for _, each := range found {
				r.sized(each)
			}
			return found
		}
	}
	return []string{r.sized(r.piecemeal(s, w.Parts)) + many}
}

// piecemeal is a word of which something cannot be known, with what can.
func (r *run) piecemeal(s *state, all []syntax.WordPart) (found string) {
	for _, part := range all {
		switch p := part.(type) {
		case *syntax.Lit:
			found += p.Value
		case *syntax.SglQuoted:
			found += p.Value
		case *syntax.DblQuoted:
			found += r.piecemeal(s, p.Parts)
		default:
			r.smear(s, part)
			found += r.mark(r.text(part))
		}
	}
	return found
}

// targets are the variables that an expansion assigns.
func targets(node syntax.Node) (names []string) {
	if node == nil {
		return nil
	}
	syntax.Walk(node, func(node syntax.Node) bool {
		var target syntax.Node
		switch n := node.(type) {
		case *syntax.CmdSubst:
			return false
		case *syntax.ParamExp:
			if n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
				names = append(names, n.Param.Value)
			}
		case *syntax.UnaryArithm:
			if n.Op == syntax.Inc || n.Op == syntax.Dec {
				target = n.X
			}
		case *syntax.BinaryArithm:
			if n.Op >= syntax.AddAssgn && n.Op <= syntax.ShrAssgn || n.Op == syntax.Assgn {
				target = n.X
			}
		}
		if word, ok := target.(*syntax.Word); ok && syntax.ValidName(word.Lit()) {
			names = append(names, word.Lit())
		}
		return true
	})
	return names
}

// smear takes what is assigned within something that cannot be followed for unknown.
func (r *run) smear(s *state, node syntax.Node) {
	for _, name := range targets(node) {
		r.set(s, name, r.mark("$"+name))
	}
}

// plain says whether the library expands a word as every shell does, and notes which variables it asks for whether they
// are set: others that nobody sets may be the image's.
func (r *run) plain(s *state, w *syntax.Word, all []syntax.WordPart) (ok bool) {
	r.asked = map[string]bool{}
	ok = true
	ifs, changed := s.vars["IFS"]
	bare, escaped := map[string]bool{}, map[*syntax.Lit]bool{}
	for _, part := range all {
		switch part.(type) {
		case *syntax.ParamExp, *syntax.CmdSubst:
			ok = ok && (!changed || ifs.Str == " \t\n")
		}
	}
	if changed && unknownText(ifs.Str) {
		return false
	}
	syntax.Walk(w, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			return false
		case *syntax.ExtGlob:
			ok = false
		case *syntax.Lit:
			ok = ok && !strings.Contains(n.Value, ":~") && !strings.Contains(n.Value, "\x00") && (escaped[n] || !strings.Contains(n.Value, `\`))
		case *syntax.SglQuoted:
			ok = ok && (!n.Dollar || !strings.ContainsAny(n.Value, "\\\x00") || dollarQuoted.MatchString(n.Value))
		case *syntax.DblQuoted:
			for _, part := range n.Parts { // a literal there has its backslashes
				if lit, is := part.(*syntax.Lit); is {
					escaped[lit] = true
				}
				p, is := part.(*syntax.ParamExp)
				ok = ok && !n.Dollar && !(is && len(n.Parts) > 1 && (p.Param.Value == "@" || p.Index != nil))
			}
		case *syntax.ArithmExp:
			ok = ok && !n.Bracket && r.counts(s, n.X)
			return false
		case *syntax.ParamExp:
			ok = ok && r.parameter(s, n, bare)
			return ok
		}
		return ok
	})
	for name := range r.asked {
		ok = ok && !bare[name]
	}
	return ok
}

var dollarQuoted = regexp.MustCompile(`^(?s:[^\\]|\\[ntr\\'"])*$`)

func (r *run) parameter(s *state, p *syntax.ParamExp, bare map[string]bool) bool {
	if p.Param == nil || p.Flags != nil || p.Width || p.IsSet || p.Names != 0 || p.Param.Value == "LINENO" || len(p.Modifiers) > 0 {
		return false
	}
	name := p.Param.Value
	env := environment{r, s}
	if word, ok := p.Index.(*syntax.Word); p.Index != nil {
		numbered := ok && integer.MatchString(word.Lit()) && slices.ContainsFunc(s.vars[name].List, isMany)
		if !ok || numbered || env.Get(name).Kind != expand.Indexed || word.Lit() != "@" && word.Lit() != "*" && !integer.MatchString(word.Lit()) {
			return false
		}
	}
	switch {
	case p.Excl:
		v := env.Get(name)
		_, there := s.vars[v.Str]
		return v.Kind == expand.String && there && p.Exp == nil && p.Index == nil
	case p.Exp != nil && p.Exp.Op <= syntax.AssignUnsetOrNull:
		alternate := p.Exp.Op == syntax.AlternateUnset || p.Exp.Op == syntax.AlternateUnsetOrNull
		if p.Exp.Op != syntax.ErrorUnset && p.Exp.Op != syntax.ErrorUnsetOrNull {
			r.asked[name] = true
		}
		// The library expands the other value even where it is not taken.
		return (p.Exp.Word == nil || targets(p.Exp.Word) == nil) && (!alternate || !unknownVariable(env.Get(name)))
	case !p.Length && p.Slice == nil && p.Repl == nil && p.Exp == nil:
		_, there := s.vars[name]
		bare[name] = !there
		return true
	}
	if v := env.Get(name); unknownVariable(v) || p.Length && !ascii(v.Str) {
		return false
	}
	if p.Slice != nil {
		return number(p.Slice.Offset) && (p.Slice.Length == nil || number(p.Slice.Length))
	}
	if p.Repl != nil {
		anchored := p.Repl.Orig == nil || strings.HasPrefix(r.text(p.Repl.Orig), "#") || strings.HasPrefix(r.text(p.Repl.Orig), "%")
		return !anchored && settled(p.Repl.Orig) && settled(p.Repl.With)
	}
	return p.Exp == nil || p.Exp.Op != syntax.OtherParamOps && ascii(env.Get(name).Str) && settled(p.Exp.Word)
}

// settled says whether a pattern is the same wherever it runs.
func settled(w *syntax.Word) bool {
	return w == nil || len(w.Parts) == 0 || w.Lit() != "" && !strings.ContainsAny(w.Lit(), `[]\&()|`)
}

func ascii(text string) bool {
	return !strings.ContainsFunc(text, func(c rune) bool { return c > 0x7e })
}

func number(expr syntax.ArithmExpr) bool {
	word, ok := expr.(*syntax.Word)
	return ok && integer.MatchString(word.Lit())
}

func unknownVariable(v expand.Variable) bool {
	return unknownText(v.Str) || slices.ContainsFunc(v.List, unknownText) || v.Map != nil
}
