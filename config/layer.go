package config

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"shardway/internal/suggest"
)

// envPrefix is the prefix of all environment variables.
const envPrefix = "SHARDWAY_"

// givenTexts is the value of a setting in one layer.
type givenTexts struct {
	texts []string
	from  string
}

// layer contains the settings of one origin, by name.
type layer map[string]givenTexts

// flagLayer reads the command line: --name value, --name=value, and for a switch --name,
// --name=false or --no-name. If a flag is repeated, the last value applies, except for lists, and
// for --upstream, which may have only one value.
func flagLayer(table []setting, args []string) (layer, []Problem, bool) {
	l, problems := make(layer), []Problem(nil)
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--help" || arg == "-h" {
			return nil, nil, true
		}
		name, val, inline := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if !strings.HasPrefix(arg, "--") || name == "" {
			problems = append(problems, Problem{Key: arg, From: "argument", Wrong: "nothing is expected here", Remedy: "settings begin with two dashes, like --node " + strconv.Quote(arg)})
			continue
		}
		s, known := lookup(table, name)
		if !known && !inline && strings.HasPrefix(name, "no-") {
			if s, known = lookup(table, strings.TrimPrefix(name, "no-")); known && s.metavar == "" {
				val, inline = "false", true
			} else {
				known = false
			}
		}
		if !known {
			problems = append(problems, unknownFlag(table, name))
			if !inline && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
				i++ // its value, most likely
			}
			continue
		}
		switch {
		case inline:
		case s.metavar == "":
			val = "true"
		case i+1 < len(args) && !strings.HasPrefix(args[i+1], "--"):
			i++
			val = args[i]
		default:
			problems = append(problems, Problem{Key: s.name, From: "flag", Wrong: "the value is missing", Remedy: "write --" + s.name + " " + s.metavar})
			continue
		}
		if earlier, twice := l[s.name]; twice && s.notRepeatable && val != "" && earlier.texts[0] != "" {
			problems = append(problems, Problem{
				Key: s.name, Value: val, From: "flag", Wrong: "the flag is there twice, first with " + strconv.Quote(earlier.texts[0]),
				Remedy: "keep one of them: a node has one app instance, and further instances need nodes of their own",
			})
			continue
		}
		l.add(s, val)
	}
	return l, problems, false
}

// add records one occurrence of a flag.
func (l layer) add(s setting, val string) {
	g := givenTexts{texts: []string{val}, from: "flag"}
	if s.many {
		g.texts = append(l[s.name].texts, split(val)...)
	}
	l[s.name] = g
}

func unknownFlag(table []setting, name string) Problem {
	p := Problem{Key: "--" + name, From: "flag", Wrong: "unknown flag", Remedy: "shardway run --help lists them all"}
	if near := suggest.Word(name, names(table, func(s setting) string { return s.name })); near != "" {
		p.Remedy = "did you mean --" + near + "? " + p.Remedy
	}
	return p
}

// envLayer reads the environment. It ignores empty variables. An unknown variable with the prefix is a
// problem only if its name resembles a setting, because other programs, such as Kubernetes, may use the
// prefix.
func envLayer(table []setting, environ []string) (layer, []Problem) {
	l, problems := make(layer), []Problem(nil)
	known := names(table, setting.env)
	foreign := regexp.MustCompile(`(_SERVICE_HOST|_SERVICE_PORT(_.*)?|_PORT(_\d+_.*)?)$`)
	for _, kv := range environ {
		name, val, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, envPrefix) || val == "" {
			continue
		}
		if i := slices.Index(known, name); i >= 0 {
			s, g := table[i], givenTexts{texts: []string{val}, from: name}
			if s.many {
				g.texts = split(val)
			}
			l[s.name] = g
			continue
		}
		if near := suggest.Word(name[len(envPrefix):], bare(known)); near != "" && !foreign.MatchString(name) {
			// The value may be a secret, so the problem does not contain it.
			problems = append(problems, Problem{Key: name, From: "environment", Wrong: "unknown setting", Remedy: "did you mean " + envPrefix + near + "?"})
		}
	}
	return l, problems
}

// bare removes the common prefix, which would distort the comparison of names.
func bare(known []string) []string {
	out := make([]string, len(known))
	for i, k := range known {
		out[i] = strings.TrimPrefix(k, envPrefix)
	}
	return out
}

// split splits a list in one text.
func split(s string) []string {
	var out []string
	for part := range strings.SplitSeq(s, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func lookup(table []setting, name string) (setting, bool) {
	i := slices.IndexFunc(table, func(s setting) bool { return s.name == name })
	if i < 0 {
		return setting{}, false
	}
	return table[i], true
}

func names(table []setting, name func(setting) string) []string {
	out := make([]string, len(table))
	for i, s := range table {
		out[i] = name(s)
	}
	return out
}
