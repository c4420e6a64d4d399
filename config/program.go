package config

import "slices"

// Program contains the settings of a program that embeds a node. They override the settings that Load
// reads.
type Program struct {
	// Embedded means that the program is the app, and that there is no other upstream.
	Embedded      bool
	EmbeddedHooks bool // the app has hooks
	Settings      []ProgramSetting
	Routes        []Route // nil means the routes of the file
	// Args and Environ are the command line and the environment for Load; nil means none. Read reads
	// the YAML file that they, or the setting config in Settings, specify.
	Args, Environ []string
	Read          func(path string) ([]byte, error)
}

// ProgramSetting is the value of a setting from a program.
type ProgramSetting struct {
	Name   string   // with dashes
	Texts  []string // one text, or any number for a list
	Origin string   // origin in errors, such as Config.Lease
}

// Setting describes a setting for a program that sets it.
type Setting struct {
	Name     string
	IsList   bool   // a list
	ZeroText string // text that stands for zero, such as off, half or 0s
}

// Settings lists all settings, in the order of the help.
func Settings() []Setting {
	var all []Setting
	var zero Config
	for _, s := range settings() {
		all = append(all, Setting{Name: s.name, IsList: s.isList, ZeroText: zeroText(s.valueOf(&zero))})
	}
	return all
}

// zeroText returns the text that stands for zero.
func zeroText(v settingValue) string {
	switch v := v.(type) {
	case durationValue:
		if !v.allowsOff {
			return "0s"
		}
	case numberValue:
		if v.zeroWord != "" {
			return v.zeroWord
		}
		return "0"
	case sizeValue:
		if !v.allowsOff {
			return "0"
		}
	default:
		return ""
	}
	return "off"
}

// Compose is Load for a Program.
func Compose(program Program) (Config, error) {
	table := settings()
	overrides := make(layer)
	for _, given := range program.Settings {
		if s, ok := findSetting(table, given.Name); ok {
			overrides[s.name] = layerValue{texts: slices.Clone(given.Texts), origin: given.Origin}
		}
	}
	return load(table, overrides, program)
}
