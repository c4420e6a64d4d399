package embed

import (
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"shardway/config"
)

// elsewhere are the settings of an app that is another process, and those that Config
// says in a way of its own.
func elsewhere(name string) bool {
	return name == "upstream" || strings.HasPrefix(name, "health") || name == "hooks" || name == "config"
}

// settings reads and judges everything that c says.
func (c Config) settings() (config.Config, error) {
	p := config.Program{Embedded: true, Hooked: c.hooked(), Args: c.Args, Environ: c.Environ, Read: os.ReadFile}
	if c.File != "" {
		p.Given = append(p.Given, config.Given{Name: "config", Texts: []string{c.File}, From: "Config.File"})
	}
	v := reflect.ValueOf(c)
	for _, s := range config.Settings() {
		field, ok := fieldOf(s.Name)
		if !ok {
			continue
		}
		if texts := textsOf(v.FieldByIndex(field.Index), s.None); texts != nil {
			p.Given = append(p.Given, config.Given{Name: s.Name, Texts: texts, From: "Config." + field.Name})
		}
	}
	for _, r := range c.Routes {
		p.Routes = append(p.Routes, config.Route{Prefix: r.Prefix, Keys: r.Key})
	}
	return config.Compose(p)
}

// fieldOf returns the field of Config for a setting: its name without dashes, in any
// case of letters, or with an s for a list.
func fieldOf(setting string) (reflect.StructField, bool) {
	name := strings.ReplaceAll(setting, "-", "")
	if elsewhere(setting) {
		return reflect.StructField{}, false
	}
	return reflect.TypeFor[Config]().FieldByNameFunc(func(field string) bool {
		return strings.EqualFold(field, name) || strings.EqualFold(field, name+"s")
	})
}

// textsOf writes a field as somebody would write the setting; nil: it is not given.
func textsOf(v reflect.Value, none string) []string {
	if v.IsZero() {
		return nil
	}
	switch x := v.Interface().(type) {
	case string:
		return []string{x}
	case bool:
		return []string{"true"}
	case []string:
		return x
	case time.Duration:
		return []string{orNone(x < 0, none, x.String())}
	case int:
		return []string{orNone(x < 0, none, strconv.Itoa(x))}
	case int64:
		return []string{orNone(x < 0, none, strconv.FormatInt(x, 10))}
	case []netip.Prefix:
		texts := []string{}
		for _, p := range x {
			texts = append(texts, p.String())
		}
		return texts
	}
	panic(fmt.Sprintf("embed: a field of type %T", v.Interface()))
}

func orNone(is bool, none, text string) string {
	if is {
		return none
	}
	return text
}
