package main

import (
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
