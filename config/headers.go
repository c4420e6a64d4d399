package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"shardway/internal/headerrules"
	"shardway/internal/suggest"
	"shardway/internal/valueerr"
)

// headersKey is the YAML key of the header rules, which a flag cannot contain.
const headersKey = "headers"

// headersForm is the remedy for header rules in another form.
const headersForm = "write tables like response: {set: {X-Frame-Options: DENY}, remove: [Server]}"

// checkHeaders checks header rules.
func (c *Config) checkHeaders(rules *headerrules.Config) *valueProblem {
	err := rules.Check(c.KeyConfig().Fields())
	problem := problemOf(err)
	if valueErr := (*valueerr.Error)(nil); errors.As(err, &valueErr) {
		problem.message = valueErr.Key + ": " + strconv.Quote(valueErr.Value) + ": " + problem.message
	}
	return problem
}

// readHeaders reads a table of header rules. key and value describe its place in problems.
func (f *file) readHeaders(entry *ast.MappingValueNode, key, value string) headerrules.Config {
	var rules headerrules.Config
	for _, table := range f.headerTable(entry, []string{"request", "response"}, key, value) {
		target := &rules.Response
		if scalarText(table.Key) == "request" {
			target = &rules.Request
		}
		for _, kind := range f.headerTable(table, []string{"set", "add", "remove"}, key, value) {
			f.readHeaderRule(target, kind, key, value)
		}
	}
	return rules
}

// headerTable returns the entries of a table whose keys must be among names.
func (f *file) headerTable(entry *ast.MappingValueNode, names []string, key, value string) []*ast.MappingValueNode {
	entries, ok := tableEntries(entry.Value)
	if !ok {
		f.addProblem(lineOf(entry.Key), key, value, "the value of "+scalarText(entry.Key)+" is not a table", headersForm)
		return nil
	}
	entries = f.uniqueEntries(entries, key)
	return slices.DeleteFunc(entries, func(e *ast.MappingValueNode) bool {
		name := scalarText(e.Key)
		if slices.Contains(names, name) {
			return false
		}
		remedy := "use " + strings.Join(names, ", ")
		if near := suggest.Word(name, names); near != "" {
			remedy = "did you mean " + near + "?"
		}
		f.addProblem(lineOf(e.Key), key, value, strconv.Quote(name)+" is not a part of header rules", remedy)
		return true
	})
}

// readHeaderRule reads the fields of one of set, add and remove.
func (f *file) readHeaderRule(target *headerrules.Rules, entry *ast.MappingValueNode, key, value string) {
	kind := scalarText(entry.Key)
	if kind == "remove" {
		names, ok := scalarTexts(entry.Value, ",")
		if !ok {
			f.addProblem(lineOf(entry.Key), key, value, "the value of remove has the wrong form", "write names like [Server, X-Powered-By]")
		}
		target.Remove = names
		return
	}
	entries, ok := tableEntries(entry.Value)
	if !ok {
		f.addProblem(lineOf(entry.Key), key, value, "the value of "+kind+" is not a table", "write fields like {X-Frame-Options: DENY}")
		return
	}
	for _, field := range f.uniqueEntries(entries, key) {
		texts, ok := scalarTexts(field.Value, "")
		if !ok {
			f.addProblem(lineOf(field.Key), key, value, "the value of the field "+scalarText(field.Key)+" has the wrong form", "write one text")
			continue
		}
		added := headerrules.Field{Name: scalarText(field.Key), Value: texts[0]}
		if kind == "set" {
			target.Set = append(target.Set, added)
		} else {
			target.Add = append(target.Add, added)
		}
	}
}
