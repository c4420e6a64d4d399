package admin

import (
	_ "embed"
	"html/template"
	"maps"
	"slices"
	"strings"
	"time"
)

//go:embed status.html
var statusHTML string

// statusPage parses the page that /status is in a browser. It panics if the page
// is broken: it is part of the program.
func statusPage() *template.Template {
	return template.Must(template.New("status.html").Funcs(template.FuncMap{
		"seconds": func(s int64) string { return (time.Duration(s) * time.Second).String() },
		"heard":   heard,
		"addrs":   addrs,
		"percent": percent,
	}).Parse(statusHTML))
}

func heard(ms int64) string {
	if ms < 0 {
		return "–"
	}
	return (time.Duration(ms) * time.Millisecond).String()
}

func addrs(endpoints map[string]string) string {
	var b strings.Builder
	for i, name := range slices.Sorted(maps.Keys(endpoints)) {
		if i > 0 {
			b.WriteString(" · ")
		}
		b.WriteString(name + " " + endpoints[name])
	}
	return b.String()
}

// percent returns the share of part in whole, for the width of a bar.
func percent(part, whole int) int {
	if whole <= 0 {
		return 0
	}
	return min(100, part*100/whole)
}
