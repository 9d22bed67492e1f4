package main

import (
	"io"
	"io/fs"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/pattern"
	"mvdan.cc/sh/v3/syntax"
)

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
	v.Exported = s.vars[name].Exported || s.allexport
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
	output, tested := r.substInto, r.tested
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
	r.substInto, r.tested = output, tested
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
		case unknownText(v.Str):
			if !given || before != nil {
				set[name] = nil
			}
		case !given || before == nil || *before != value:
			set[name] = &value
		}
	}
	for name := range maps.Keys(r.request.Env) {
		if _, there := s.vars[name]; !there {
			unset = append(unset, name)
		}
	}
	return set, unset
}
