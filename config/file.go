package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"shardway/internal/headerrules"
	"shardway/internal/suggest"
)

// routesKey is a YAML key that is not a setting, because a flag cannot contain a table.
const routesKey = "routes"

// file contains the settings of the YAML file.
type file struct {
	path          string
	layer         layer
	routes        []Route
	routesOrigin  string // file and line of the key routes; empty if the file has no routes
	headers       headerrules.Config
	headersOrigin string // file and line of the key headers; empty if the file has none
	problems      []Problem

	services       []*file  // services of the file, ascending by name
	servicesOrigin string   // file and line of the key services; empty if the file has none
	service        string   // name of the service to which these settings belong; empty means the node
	serviceRoutes  []string // hosts and path prefixes of the service
}

// parseFile reads the text of the YAML file: one table of settings. It removes a byte order mark (YAML
// 1.2.2, section 5.2), which the parser would treat as a part of the first key.
func parseFile(table []setting, path string, data []byte) *file {
	result := &file{path: path, layer: make(layer)}
	text := strings.TrimPrefix(string(data), "\ufeff")
	if line, problem := checkFileBounds(text); problem != nil {
		result.addProblem(line, "", "", problem.message, problem.remedy)
		return result
	}
	doc, err := parser.ParseBytes([]byte(text), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		line, wrong := syntaxError(err)
		result.addProblem(line, "", "", wrong, "correct the YAML")
		return result
	}
	body := result.onlyDocument(doc.Docs)
	if body == nil {
		return result
	}
	entries, ok := tableEntries(body)
	if !ok {
		result.addProblem(lineOf(body), "", "", "the file is not a table of settings", "write lines like node: a")
		return result
	}
	for _, e := range result.uniqueEntries(entries, "") {
		result.readEntry(table, e)
	}
	return result
}

// onlyDocument returns the body of the first YAML document that is not empty, or nil. It reports a
// problem for each further one.
func (f *file) onlyDocument(documents []*ast.DocumentNode) (body ast.Node) {
	for _, document := range documents {
		isEmpty := document.Body == nil || document.Body.Type() == ast.NullType || document.Body.Type() == ast.CommentType
		switch {
		case isEmpty:
		case body != nil:
			f.addProblem(lineOf(document.Body), "", "", "a second document begins here", "keep all settings in one")
		default:
			body = document.Body
		}
	}
	return body
}

// uniqueEntries returns the first entry of each key. A duplicate key is reported as a problem, because
// an operator who reads the file could not see which value applies. problemKey is the key of that
// problem.
func (f *file) uniqueEntries(entries []*ast.MappingValueNode, problemKey string) []*ast.MappingValueNode {
	firstLine := make(map[string]int)
	var unique []*ast.MappingValueNode
	for _, entry := range entries {
		key, line := scalarText(entry.Key), lineOf(entry.Key)
		if earlier, ok := firstLine[key]; ok {
			f.addProblem(line, problemKey, "", strconv.Quote(key)+" is there twice, first in line "+strconv.Itoa(earlier), "keep one of them")
			continue
		}
		firstLine[key] = line
		unique = append(unique, entry)
	}
	return unique
}

// readEntry adds one top-level entry of the file to the layer.
func (f *file) readEntry(table []setting, entry *ast.MappingValueNode) {
	key, line := scalarText(entry.Key), lineOf(entry.Key)
	if key == routesKey {
		f.readRoutes(entry)
		return
	}
	if key == headersKey {
		f.headersOrigin, f.headers = f.origin(line), f.readHeaders(entry, headersKey, "")
		return
	}
	if key == servicesKey {
		f.readServices(table, entry)
		return
	}
	match, isKnown := findByYAML(table, key)
	if !isKnown {
		remedy := "remove it"
		known := append(settingNames(table, setting.yaml), routesKey, headersKey, servicesKey)
		if near := suggest.Word(strings.ReplaceAll(key, "-", "_"), known); near != "" && near != "config" {
			remedy = "did you mean " + near + "?"
		}
		f.addProblem(line, key, "", "unknown key", remedy)
		return
	}
	if _, isSet := f.layer[match.name]; isSet {
		f.addProblem(line, key, "", "this is another name of "+match.yaml()+", which the file also contains", "keep one of them")
		return
	}
	texts, ok := scalarTexts(entry.Value, match.separator)
	if !ok {
		remedy := "write " + match.yaml() + ": " + match.example()
		f.addProblem(line, match.name, "", "the value has the wrong form", remedy)
		return
	}
	f.layer[match.name] = layerValue{texts: texts, origin: f.origin(line)}
}

// findByYAML returns the setting with a key of the file.
func findByYAML(table []setting, key string) (match setting, isKnown bool) {
	i := slices.IndexFunc(table, func(match setting) bool {
		return (match.yaml() == key || match.yamlAlias == key) && !match.flagOnly
	})
	if i < 0 {
		return setting{}, false
	}
	return table[i], true
}

// example returns an example value in YAML syntax.
func (s setting) example() string {
	word := s.metavar
	if len(s.defaults) > 0 {
		word = s.defaults[0]
	}
	if strings.Contains(word, ": ") {
		word = "'" + word + "'"
	}
	if s.isList() {
		return "[" + word + "]"
	}
	if word == "" {
		return "true"
	}
	return word
}

// readRoutes reads the table of path prefixes, and sorts the routes by descending length of the prefix,
// because the longest matching prefix applies.
func (f *file) readRoutes(entry *ast.MappingValueNode) {
	const remedy = "write one line for each prefix, like /api: [header:X-Tenant, ip]"
	routesLine := lineOf(entry.Key)
	f.routesOrigin = f.origin(routesLine)
	entries, ok := tableEntries(entry.Value)
	if !ok {
		f.addProblem(routesLine, routesKey, "", "the value is not a table", remedy)
		return
	}
	for _, routeEntry := range f.uniqueEntries(entries, routesKey) {
		if settings, isTable := tableEntries(routeEntry.Value); isTable {
			f.readRouteSettings(scalarText(routeEntry.Key), settings)
			continue
		}
		keys, ok := scalarTexts(routeEntry.Value, ",")
		if !ok {
			f.addProblem(lineOf(routeEntry.Key), routesKey, scalarText(routeEntry.Key), "the value has the wrong form", remedy)
			continue
		}
		f.routes = append(f.routes, Route{Prefix: scalarText(routeEntry.Key), Keys: keys})
	}
	slices.SortFunc(f.routes, func(a, b Route) int {
		if d := len(b.Prefix) - len(a.Prefix); d != 0 {
			return d
		}
		return strings.Compare(a.Prefix, b.Prefix)
	})
}

// readRouteSettings reads a route in the form of a table, whose keys are names of settings.
func (f *file) readRouteSettings(prefix string, entries []*ast.MappingValueNode) {
	route := Route{Prefix: prefix}
	for _, entry := range f.uniqueEntries(entries, routesKey) {
		name, line := scalarText(entry.Key), lineOf(entry.Key)
		if name == headersKey {
			route.Headers = f.readHeaders(entry, routesKey, prefix)
			continue
		}
		separator := ""
		if name == "key" {
			separator = ","
		}
		texts, ok := scalarTexts(entry.Value, separator)
		switch {
		case !slices.Contains(routeSettingNames(), name):
			remedy := "use " + strings.Join(routeSettingNames(), ", ")
			if near := suggest.Word(strings.ReplaceAll(name, "-", "_"), routeSettingNames()); near != "" {
				remedy = "did you mean " + near + "?"
			}
			f.addProblem(line, routesKey, prefix, strconv.Quote(name)+" is not a setting of a route", remedy)
		case !ok || len(texts) == 0:
			f.addProblem(line, routesKey, prefix, "the value of "+name+" has the wrong form", "write a value as for the setting "+name)
		case name == "key":
			route.Keys = texts
		case name == "key_limit":
			route.KeyLimit = texts[0]
		case name == "upstream_idle_timeout":
			route.UpstreamIdleTimeout = texts[0]
		case name == "total_timeout":
			route.TotalTimeout = texts[0]
		default:
			route.FirstByteTimeout = texts[0]
		}
	}
	f.routes = append(f.routes, route)
}

// routeSettingNames returns the names of the settings that a route can have.
func routeSettingNames() []string {
	return []string{"key", "key_limit", "first_byte_timeout", "upstream_idle_timeout", "total_timeout", headersKey}
}

// addProblem records a problem of the given line. In a service, key is a key of the service.
func (f *file) addProblem(line int, key, text, message, remedy string) {
	if f.service != "" {
		if key == routesKey { // see pathsKey
			key = pathsKey
		}
		key = serviceKey(f.service, key)
	}
	f.problems = append(f.problems, Problem{Key: key, Value: text, Origin: f.origin(line), Message: message, Remedy: remedy})
}

// origin returns the origin of a value in the given line, as file:line.
func (f *file) origin(line int) string { return f.path + ":" + strconv.Itoa(line) }

// tableEntries returns the entries of a YAML table, and false for any other node.
func tableEntries(node ast.Node) ([]*ast.MappingValueNode, bool) {
	switch typed := node.(type) {
	case *ast.MappingNode:
		return typed.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{typed}, true
	}
	return nil, false
}

// scalarTexts returns the value of a key: one text, or any number of them for a list. separator separates
// the elements of a list in one text; empty means that the value is no list. scalarTexts returns false if
// the node has another form.
func scalarTexts(node ast.Node, separator string) ([]string, bool) {
	isList := separator != ""
	if sequence, ok := node.(*ast.SequenceNode); ok && isList {
		var texts []string
		for _, element := range sequence.Values {
			if !isScalar(element) {
				return nil, false
			}
			texts = append(texts, scalarText(element))
		}
		return texts, true
	}
	if !isScalar(node) {
		return nil, false
	}
	if isList {
		return splitList(scalarText(node), separator), true
	}
	return []string{scalarText(node)}, true
}

// isScalar reports whether the node is a plain value. Aliases and explicit types are not supported.
func isScalar(node ast.Node) bool {
	switch node.(type) {
	case *ast.StringNode, *ast.LiteralNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return true
	}
	return false
}

// scalarText returns the text of a plain value, without quotes.
func scalarText(node ast.Node) string {
	if literal, ok := node.(*ast.LiteralNode); ok {
		return strings.TrimRight(literal.Value.Value, "\n")
	}
	return node.GetToken().Value
}

func lineOf(node ast.Node) int { return node.GetToken().Position.Line }

// syntaxError returns the line and the message of a parser error. The text of the error itself contains several
// lines of the file, in colour.
func syntaxError(err error) (int, string) {
	if yamlErr := yaml.Error(nil); errors.As(err, &yamlErr) && yamlErr.GetToken() != nil {
		return yamlErr.GetToken().Position.Line, yamlErr.GetMessage()
	}
	return 1, err.Error()
}
