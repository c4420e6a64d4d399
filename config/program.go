package config

import (
	"slices"

	"shardway/internal/headerrules"
)

// Program contains the settings of a program that embeds a node. They override the settings that Load
// reads.
type Program struct {
	// Embedded is set if the program is the app, so there is no other upstream.
	Embedded bool
	// EmbeddedHooks is set if the app has hooks.
	EmbeddedHooks bool
	// Settings contains the settings that the program sets itself.
	Settings []ProgramSetting
	// Routes replaces the routes of the YAML file, unless it is nil.
	Routes []Route
	// Headers replaces the header rules of the YAML file, unless it is nil.
	Headers *headerrules.Config
	// Args and Environ are the command line and the environment for Load. Both may be nil.
	Args, Environ []string
	// Read reads the YAML file that Args, Environ or the setting config in Settings names.
	Read func(path string) ([]byte, error)
}

// ProgramSetting is the value of a setting from a program.
type ProgramSetting struct {
	Name   string   // with dashes
	Texts  []string // one text, or any number for a list
	Origin string   // origin in errors, such as Config.Lease
}

// Setting describes a setting for a program that sets it.
type Setting struct {
	Name     string // with dashes
	IsList   bool   // the value is a list
	ZeroText string // text of the value zero, such as off, half or 0s; empty means that zero has no meaning
}

// Settings lists all settings, in the order of the help.
func Settings() []Setting {
	var all []Setting
	var zero Config
	for _, s := range settings() {
		all = append(all, Setting{Name: s.name, IsList: s.isList(), ZeroText: zeroText(s.valueOf(&zero))})
	}
	return all
}

// zeroText returns the text that stands for zero, or an empty text if the value is not a number.
func zeroText(value settingValue) string {
	switch value := value.(type) {
	case durationValue:
		return zeroTextOf(value.allowsOff, "0s")
	case sizeValue:
		return zeroTextOf(value.allowsOff, "0")
	case numberValue:
		if value.zeroWord != "" {
			return value.zeroWord
		}
		return "0"
	}
	return ""
}

// zeroTextOf returns "off" for a value that can be disabled, and otherwise number.
func zeroTextOf(allowsOff bool, number string) string {
	if allowsOff {
		return "off"
	}
	return number
}

// Compose is like Load, for a program that embeds a node.
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
