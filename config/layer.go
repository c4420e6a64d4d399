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
	texts  []string
	origin string
}

// layer contains the settings of one origin, by name.
type layer map[string]layerValue

// flagLayer reads the command line: --name value, --name=value, and for a switch --name,
// --name=false or --no-name. If a flag is repeated, the last value applies, except for lists, and
// for --upstream, which may have only one value.
func flagLayer(table []setting, args []string) (layer, []Problem, bool) {
	result, problems := make(layer), []Problem(nil)
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if arg == "--help" || arg == "-h" {
			return nil, nil, true
		}
		name, text, inline := strings.Cut(strings.TrimPrefix(arg, "--"), "=")
		if !strings.HasPrefix(arg, "--") || name == "" {
			problems = append(problems, Problem{Key: arg, Origin: "argument", Message: "nothing is expected here", Remedy: "settings begin with two dashes, like --node " + strconv.Quote(arg)})
			continue
		}
		match, known := findSetting(table, name)
		if !known && !inline && strings.HasPrefix(name, "no-") {
			if match, known = findSetting(table, strings.TrimPrefix(name, "no-")); known && match.metavar == "" {
				text, inline = "false", true
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
		case match.metavar == "":
			text = "true"
		case i+1 < len(args) && !strings.HasPrefix(args[i+1], "--"):
			i++
			text = args[i]
		default:
			problems = append(problems, Problem{Key: match.name, Origin: "flag", Message: "the value is missing", Remedy: "write --" + match.name + " " + match.metavar})
			continue
		}
		if earlier, twice := result[match.name]; twice && match.notRepeatable && text != "" && earlier.texts[0] != "" {
			problems = append(problems, Problem{
				Key: match.name, Value: text, Origin: "flag", Message: "the flag is there twice, first with " + strconv.Quote(earlier.texts[0]),
				Remedy: "keep one of them: a node has one app instance, and further instances need nodes of their own",
			})
			continue
		}
		result.add(match, text)
	}
	return result, problems, false
}

// add records one occurrence of a flag.
func (l layer) add(match setting, val string) {
	given := layerValue{texts: []string{val}, origin: "flag"}
	if match.isList {
		given.texts = append(l[match.name].texts, splitList(val)...)
	}
	l[match.name] = given
}

func unknownFlag(table []setting, name string) Problem {
	problem := Problem{Key: "--" + name, Origin: "flag", Message: "unknown flag", Remedy: "shardway run --help lists them all"}
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
			match, given := table[i], layerValue{texts: []string{text}, origin: name}
			if match.isList {
				given.texts = splitList(text)
			}
			result[match.name] = given
			continue
		}
		if near := suggest.Word(name[len(envPrefix):], withoutEnvPrefix(known)); near != "" && !foreign.MatchString(name) {
			// The value may be a secret, so the problem does not contain it.
			problems = append(problems, Problem{Key: name, Origin: "environment", Message: "unknown setting", Remedy: "did you mean " + envPrefix + near + "?"})
		}
	}
	return result, problems
}

// withoutEnvPrefix removes the common prefix, which would distort the comparison of names.
func withoutEnvPrefix(known []string) []string {
	out := make([]string, len(known))
	for i, k := range known {
		out[i] = strings.TrimPrefix(k, envPrefix)
	}
	return out
}

// splitList splits a list in one text.
func splitList(text string) []string {
	var out []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			out = append(out, part)
		}
	}
	return out
}

func findSetting(table []setting, name string) (setting, bool) {
	i := slices.IndexFunc(table, func(s setting) bool { return s.name == name })
	if i < 0 {
		return setting{}, false
	}
	return table[i], true
}

func settingNames(table []setting, format func(setting) string) []string {
	out := make([]string, len(table))
	for i, s := range table {
		out[i] = format(s)
	}
	return out
}
