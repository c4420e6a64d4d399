package config

import (
	"strings"
)

// Flag is the help of a setting.
type Flag struct {
	Name    string // without the dashes
	Metavar string // placeholder of the value; empty means a switch
	Env     string // environment variable
	YAML    string // key in the file; empty means none
	Default string // default in words; empty means none
	Group   string // heading in the help
	Help    string
	IsList  bool // may be repeated
}

// Flags returns all settings in the order of the help.
func Flags() []Flag { return flagsOf(settings()) }

// flagsOf returns the help of a table of settings.
func flagsOf(table []setting) []Flag {
	flags := make([]Flag, len(table))
	for i, s := range table {
		flag := Flag{Name: s.name, Metavar: s.metavar, Env: s.env(), Default: strings.Join(s.defaults, ","), Group: s.group, Help: s.help, IsList: s.isList()}
		if !s.flagOnly {
			flag.YAML = s.yaml()
		}
		if s.shownDefault != "" {
			flag.Default = s.shownDefault
		}
		flags[i] = flag
	}
	return flags
}

// Value is the effective value of a setting.
type Value struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"from"` // "flag", a variable's name, "shardway.yaml:12", "default"
}

// String returns the settings of the route: its key sources, and the other settings with their names.
func (r *Route) String() string {
	text := strings.Join(r.Keys, ",")
	add := func(name, value string) {
		if value == "" {
			return
		}
		if text != "" {
			text += " "
		}
		text += name + ": " + value
	}
	add("key_limit", r.KeyLimit)
	add("first_byte_timeout", r.FirstByteTimeout)
	add("upstream_idle_timeout", r.UpstreamIdleTimeout)
	add("total_timeout", r.TotalTimeout)
	add("headers", r.Headers.String())
	return text
}

// Values returns the effective value and the origin of each setting.
func (c *Config) Values() []Value {
	table := settings()
	values := make([]Value, 0, len(table)+len(c.Routes))
	for _, s := range table {
		values = append(values, Value{Key: s.name, Value: s.shownValue(c), Origin: c.Origin(s.name)})
	}
	if !c.Headers.IsEmpty() {
		values = append(values, Value{Key: headersKey, Value: c.Headers.String(), Origin: c.Origin(headersKey)})
	}
	for _, r := range c.Routes {
		values = append(values, Value{Key: routesKey + " " + r.Prefix, Value: r.String(), Origin: c.Origin(routesKey)})
	}
	return append(values, c.serviceValues()...)
}
