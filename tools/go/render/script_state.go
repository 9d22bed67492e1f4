package main

import (
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

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
	pipe      []status // of the last pipeline; nil where paths disagree
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

// run follows one script.
type run struct {
	request   *request
	posix     bool // sh may be bash in one image and dash in another
	source    string
	until     time.Duration // of processor time, see spent
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

// spent is the processor time of this process. By the clock, what is known of a script would depend on what else runs.
func spent() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		giveUp()
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// step is taken for each statement.
func (r *run) step() {
	r.steps++
	if r.steps > stepCount || spent() > r.until {
		giveUp()
	}
}

func (r *run) exit(s *state) {
	if r.ends = append(r.ends, s.clone()); len(r.ends) > commandCount {
		giveUp()
	}
	s.dead = true
}

// having is what a command leaves. A compound command sets s.status alone: PIPESTATUS is that of the last one inside.
func (s *state) having(now status) { s.status, s.pipe = now, []status{now} }

func (r *run) joinAll(s *state, others []*state) {
	for _, other := range others {
		r.join(s, other)
	}
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
			s.vars[name] = r.vague(name, mine, v)
		}
	}
	for name, mine := range s.vars {
		if _, ok := other.vars[name]; !ok {
			s.vars[name] = r.vague(name, mine, expand.Variable{})
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
	if s.status = now; !samePipe(s, other) {
		s.pipe = nil
	}
}

func samePipe(a, b *state) bool {
	return (a.pipe == nil) == (b.pipe == nil) && slices.EqualFunc(a.pipe, b.pipe, func(a, b status) bool { return a.code == b.code && a.sure == b.sure })
}

// equal says whether one more round of a loop changes nothing.
func equal(a, b *state) bool {
	return maps.EqualFunc(a.vars, b.vars, same) && slices.Equal(a.params, b.params) && maps.Equal(a.funcs, b.funcs) &&
		a.failed == b.failed && a.followed == b.followed && a.partial == b.partial && a.status.code == b.status.code &&
		a.errexit == b.errexit && a.pipefail == b.pipefail && a.mixed == b.mixed && samePipe(a, b)
}

func same(a, b expand.Variable) bool {
	return a.Set == b.Set && a.Exported == b.Exported && a.Local == b.Local && a.Kind == b.Kind && a.Str == b.Str && slices.Equal(a.List, b.List)
}

// vague is a variable that is set to what nobody knows, one or the other. Local says that it may be exported or not.
func (r *run) vague(name string, a, b expand.Variable) expand.Variable {
	may := a.Exported != b.Exported || a.Local || b.Local
	return expand.Variable{Set: true, Exported: a.Exported || b.Exported, Local: may, Kind: expand.String, Str: r.mark("$" + name)}
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
