package config

import "slices"

// Program contains the settings of a program that embeds a node. They override the settings that Load
// reads.
type Program struct {
	// Embedded means that the program is the app, and that there is no other upstream.
	Embedded bool
	Hooked   bool // the app has hooks
	Given    []Given
	Routes   []Route // nil means the routes of the file
	// Args and Environ are the command line and the environment for Load; nil means none. Read reads the
	// YAML file that they, or the setting config in Given, specify.
	Args, Environ []string
	Read          func(path string) ([]byte, error)
}

// Given is the value of a setting from a program.
type Given struct {
	Name  string   // with dashes
	Texts []string // one text, or any number for a list
	From  string   // origin in errors, such as Config.Lease
}

// Setting describes a setting for a program that sets it.
type Setting struct {
	Name string
	Many bool   // a list
	None string // text that stands for zero, such as off, half or 0s
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

// none returns the text that stands for zero.
func none(v value) string {
	switch v := v.(type) {
	case durationValue:
		if !v.off {
			return "0s"
		}
	case numberValue:
		if v.zero != "" {
			return v.zero
		}
		return "0"
	case sizeValue:
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
			first[s.name] = givenTexts{texts: slices.Clone(g.Texts), from: g.From}
		}
	}
	return load(table, first, p)
}
