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

// layerValue is the value of a setting in one layer.
type layerValue struct {
	texts  []string // one text, or any number for a list
	origin string   // where the value was set, for messages: "flag", a variable, or file:line
}

// layer contains the settings of one origin, by name.
type layer map[string]layerValue

// flagLayer reads the command line: --name value, --name=value, and for a switch --name,
// --name=false or --no-name. If a flag is repeated, the last value applies, except for lists, and
// for --upstream, which may have only one value. wantsHelp reports whether --help was found. If it
// is true, the other results are not set.
func flagLayer(table []setting, args []string) (flags layer, problems []Problem, wantsHelp bool) {
	flags = make(layer)
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--help" || arg == "-h" {
			return nil, nil, true
		}
		name, text, hasText := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if !strings.HasPrefix(arg, "--") || name == "" {
			problems = append(problems, Problem{Key: arg, Origin: "argument", Message: "nothing is expected here", Remedy: "settings begin with two dashes, like --" + exampleFlag(table) + " " + strconv.Quote(arg)})
			continue
		}
		match, known := findSetting(table, name)
		if !known && !hasText {
			if match, known = findNegated(table, name); known {
				text, hasText = "false", true
			}
		}
		if !known {
			problems = append(problems, unknownFlag(table, name))
			if !hasText && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
				i++ // probably the value of the flag
			}
			continue
		}
		switch {
		case hasText:
		case match.isSwitch():
			text = "true"
		case i+1 < len(args) && !strings.HasPrefix(args[i+1], "--"):
			i++
			text = args[i]
		default:
			problems = append(problems, Problem{Key: match.name, Origin: "flag", Message: "the value is missing", Remedy: "write --" + match.name + " " + match.metavar})
			continue
		}
		if problem := flags.checkRepetition(match, text); problem != nil {
			problems = append(problems, *problem)
			continue
		}
		flags.add(match, text)
	}
	return flags, problems, false
}

// isSwitch reports whether the flag of the setting needs no value.
func (s setting) isSwitch() bool { return s.metavar == "" }

// findNegated returns the switch that a flag with the prefix no- turns off.
func findNegated(table []setting, name string) (match setting, ok bool) {
	positive, isNegated := strings.CutPrefix(name, "no-")
	if !isNegated {
		return setting{}, false
	}
	match, ok = findSetting(table, positive)
	return match, ok && match.isSwitch()
}

// checkRepetition returns a problem if a flag that may have only one value already has one.
func (l layer) checkRepetition(match setting, text string) *Problem {
	earlier, isRepeated := l[match.name]
	if !isRepeated || !match.notRepeatable || text == "" || earlier.texts[0] == "" {
		return nil
	}
	return &Problem{
		Key: match.name, Value: text, Origin: "flag", Message: "the flag is there twice, first with " + strconv.Quote(earlier.texts[0]),
		Remedy: "keep one of them: a node runs the same command for each key or shard",
	}
}

// add records one occurrence of a flag.
func (l layer) add(match setting, val string) {
	given := layerValue{texts: []string{val}, origin: "flag"}
	if match.isList() {
		given.texts = append(l[match.name].texts, splitList(val, match.separator)...)
		if val == "" && match.emptyResets {
			given.texts = nil
		}
	}
	l[match.name] = given
}

// commandOf returns the command whose flags are in a table.
func commandOf(table []setting) string {
	if _, ok := findSetting(table, "node"); ok {
		return "run"
	}
	return "announce"
}

// exampleFlag returns the flag of a table that names a node or a service.
func exampleFlag(table []setting) string {
	if commandOf(table) == "run" {
		return "node"
	}
	return "name"
}

func unknownFlag(table []setting, name string) Problem {
	problem := Problem{Key: "--" + name, Origin: "flag", Message: "unknown flag", Remedy: "shardway " + commandOf(table) + " --help lists them all"}
	if near := suggest.Word(name, settingNames(table, func(s setting) string { return s.name })); near != "" {
		problem.Remedy = "did you mean --" + near + "? " + problem.Remedy
	}
	return problem
}

// envLayer reads the environment. It ignores empty variables. An unknown variable with the prefix is a
// problem only if its name resembles a setting, because other programs, such as Kubernetes, may use the
// prefix.
func envLayer(table []setting, environ []string) (layer, []Problem) {
	result, problems := make(layer), []Problem(nil)
	known := settingNames(table, setting.env)
	foreign := regexp.MustCompile(`(_SERVICE_HOST|_SERVICE_PORT(_.*)?|_PORT(_\d+_.*)?)$`)
	for _, variable := range environ {
		name, text, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, envPrefix) || text == "" {
			continue
		}
		if i := slices.Index(known, name); i >= 0 {
			texts := []string{text}
			if table[i].isList() {
				texts = splitList(text, table[i].separator)
			}
			result[table[i].name] = layerValue{texts: texts, origin: name}
			continue
		}
		near := suggest.Word(name[len(envPrefix):], withoutEnvPrefix(known))
		if near != "" && !foreign.MatchString(name) {
			// The value may be a secret, so the problem does not contain it.
			problems = append(problems, Problem{Key: name, Origin: "environment", Message: "unknown setting", Remedy: "did you mean " + envPrefix + near + "?"})
		}
	}
	return result, problems
}

// withoutEnvPrefix removes the common prefix, which would distort the comparison of names.
func withoutEnvPrefix(known []string) []string {
	names := make([]string, len(known))
	for i, key := range known {
		names[i] = strings.TrimPrefix(key, envPrefix)
	}
	return names
}

// splitList splits a list in one text.
func splitList(text, separator string) []string {
	var parts []string
	for part := range strings.SplitSeq(text, separator) {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts
}

func findSetting(table []setting, name string) (setting, bool) {
	i := slices.IndexFunc(table, func(s setting) bool { return s.name == name })
	if i < 0 {
		return setting{}, false
	}
	return table[i], true
}

func settingNames(table []setting, format func(setting) string) []string {
	names := make([]string, len(table))
	for i, element := range table {
		names[i] = format(element)
	}
	return names
}
