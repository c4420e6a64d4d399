package config

import "slices"

// Program is what a program says of its settings that has a node within itself. What
// it gives beats the rest, which Load reads.
type Program struct {
	// Embedded tells that the program is the app: there is no other upstream.
	Embedded bool
	Hooked   bool // the app has hooks
	Given    []Given
	Routes   []Route // nil: those of the file
	// Args and Environ are a command line and an environment as Load reads them; nil:
	// there is none. Read reads the YAML file that they name, or a Given called config.
	Args, Environ []string
	Read          func(path string) ([]byte, error)
}

// Given is one setting as a program gives it.
type Given struct {
	Name  string   // with dashes
	Texts []string // one, or as many as a list has
	From  string   // how errors call the place, like Config.Lease
}

// Setting is what a program has to know of a setting to give it.
type Setting struct {
	Name string
	Many bool   // a list
	None string // what stands for zero, where nothing does: off, half or 0s
}

// Settings lists all settings, in the order of the help.
func Settings() []Setting {
	var all []Setting
	var c Config
	for _, s := range settings() {
		all = append(all, Setting{Name: s.name, Many: s.many, None: none(s.bind(&c))})
	}
	return all
}

// none returns the word for zero.
func none(v value) string {
	switch v := v.(type) {
	case span:
		if !v.off {
			return "0s"
		}
	case number:
		if v.zero != "" {
			return v.zero
		}
		return "0"
	case size:
		if !v.off {
			return "0"
		}
	default:
		return ""
	}
	return "off"
}

// Compose is Load for a Program.
func Compose(p Program) (Config, error) {
	table := settings()
	first := make(layer)
	for _, g := range p.Given {
		if s, ok := lookup(table, g.Name); ok {
			first[s.name] = given{texts: slices.Clone(g.Texts), from: g.From}
		}
	}
	return load(table, first, p)
}
