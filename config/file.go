package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"shardway/internal/suggest"
)

// routesKey is the only YAML key that is not a setting, because a flag cannot contain a table.
const routesKey = "routes"

// file contains the settings of the YAML file.
type file struct {
	path     string
	layer    layer
	routes   []Route
	from     string // where the routes stand
	problems []Problem
}

// parseFile reads the text of the YAML file: one table of settings. It removes
// a byte order mark (YAML 1.2.2, section 5.2), which the parser would treat as a part of the first key.
func parseFile(table []setting, path string, data []byte) *file {
	f := &file{path: path, layer: make(layer)}
	text := strings.TrimPrefix(string(data), "\ufeff")
	if line, flaw := checkFileBounds(text); flaw != nil {
		f.problem(line, "", "", flaw.wrong, flaw.remedy)
		return f
	}
	doc, err := parser.ParseBytes([]byte(text), 0, parser.AllowDuplicateMapKey())
	if err != nil {
		line, wrong := syntax(err)
		f.problem(line, "", "", wrong, "correct the YAML")
		return f
	}
	var body ast.Node
	for _, d := range doc.Docs {
		switch {
		case d.Body == nil || d.Body.Type() == ast.NullType || d.Body.Type() == ast.CommentType:
		case body != nil:
			f.problem(line(d.Body), "", "", "a second document begins here", "keep all settings in one")
		default:
			body = d.Body
		}
	}
	if body == nil {
		return f
	}
	entries, ok := mapping(body)
	if !ok {
		f.problem(line(body), "", "", "the file is not a table of settings", "write lines like node: a")
		return f
	}
	for _, e := range f.unique(entries, "") {
		f.entry(table, e)
	}
	return f
}

// unique returns the entries whose keys are new. A duplicate key is a problem,
// because readers could not tell which value applies. The key of the problem is table, if it is not empty.
func (f *file) unique(entries []*ast.MappingValueNode, table string) []*ast.MappingValueNode {
	first := make(map[string]int)
	var out []*ast.MappingValueNode
	for _, e := range entries {
		key, at := scalarText(e.Key), line(e.Key)
		if earlier, ok := first[key]; ok {
			f.problem(at, table, "", strconv.Quote(key)+" is there twice, first in line "+strconv.Itoa(earlier), "keep one of them")
			continue
		}
		first[key] = at
		out = append(out, e)
	}
	return out
}

// entry reads one entry of the table.
func (f *file) entry(table []setting, e *ast.MappingValueNode) {
	key, at := scalarText(e.Key), line(e.Key)
	if key == routesKey {
		f.readRoutes(e)
		return
	}
	i := slices.IndexFunc(table, func(s setting) bool { return s.yaml() == key && !s.flagOnly })
	if i < 0 {
		remedy := "remove it"
		known := append(names(table, setting.yaml), routesKey)
		if near := suggest.Word(strings.ReplaceAll(key, "-", "_"), known); near != "" && near != "config" {
			remedy = "did you mean " + near + "?"
		}
		f.problem(at, key, "", "unknown key", remedy)
		return
	}
	s := table[i]
	texts, ok := textsOf(e.Value, s.many)
	if !ok {
		remedy := "write " + s.yaml() + ": " + s.example()
		f.problem(at, s.name, "", "the value has the wrong form", remedy)
		return
	}
	f.layer[s.name] = givenTexts{texts: texts, from: f.at(at)}
}

// example returns an example value in YAML syntax.
func (s setting) example() string {
	word := s.metavar
	if len(s.defaults) > 0 {
		word = s.defaults[0]
	}
	if s.many {
		return "[" + word + "]"
	}
	if word == "" {
		return "true"
	}
	return word
}

// readRoutes reads the table of path prefixes.
func (f *file) readRoutes(e *ast.MappingValueNode) {
	const remedy = "write one line for each prefix, like /api: [header:X-Tenant, ip]"
	at := line(e.Key)
	f.from = f.at(at)
	entries, ok := mapping(e.Value)
	if !ok {
		f.problem(at, routesKey, "", "the value is not a table", remedy)
		return
	}
	for _, r := range f.unique(entries, routesKey) {
		keys, ok := textsOf(r.Value, true)
		if !ok {
			f.problem(line(r.Key), routesKey, scalarText(r.Key), "the value has the wrong form", remedy)
			continue
		}
		f.routes = append(f.routes, Route{Prefix: scalarText(r.Key), Keys: keys})
	}
	slices.SortFunc(f.routes, func(a, b Route) int {
		if d := len(b.Prefix) - len(a.Prefix); d != 0 {
			return d
		}
		return strings.Compare(a.Prefix, b.Prefix)
	})
}

func (f *file) problem(at int, key, val, wrong, remedy string) {
	f.problems = append(f.problems, Problem{Key: key, Value: val, From: f.at(at), Wrong: wrong, Remedy: remedy})
}

func (f *file) at(line int) string { return f.path + ":" + strconv.Itoa(line) }

// mapping returns the entries of a table.
func mapping(n ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// textsOf returns the value of a key: one text, or for a list one or more.
func textsOf(n ast.Node, many bool) ([]string, bool) {
	if seq, ok := n.(*ast.SequenceNode); ok && many {
		var out []string
		for _, v := range seq.Values {
			if !scalar(v) {
				return nil, false
			}
			out = append(out, scalarText(v))
		}
		return out, true
	}
	if !scalar(n) {
		return nil, false
	}
	if many {
		return split(scalarText(n)), true
	}
	return []string{scalarText(n)}, true
}

// scalar reports whether the node is a plain value. References and typed values are not supported.
func scalar(n ast.Node) bool {
	switch n.(type) {
	case *ast.StringNode, *ast.LiteralNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return true
	}
	return false
}

// scalarText returns a plain value without quotes.
func scalarText(n ast.Node) string {
	if l, ok := n.(*ast.LiteralNode); ok {
		return strings.TrimRight(l.Value.Value, "\n")
	}
	return n.GetToken().Value
}

func line(n ast.Node) int { return n.GetToken().Position.Line }

// syntax returns the line and the message of a parser error. The text of the error itself contains several
// lines of the file, in colour.
func syntax(err error) (int, string) {
	if ye := yaml.Error(nil); errors.As(err, &ye) && ye.GetToken() != nil {
		return ye.GetToken().Position.Line, ye.GetMessage()
	}
	return 1, err.Error()
}
