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
	"shardway/internal/headerrules"
)

// isExcluded reports whether Config has no field for a setting: it is for an app in another
// process, or Config represents it differently.
func isExcluded(name string) bool {
	return name == "upstream" || strings.HasPrefix(name, "health") || strings.HasPrefix(name, "exec") || name == "hooks" || name == "config"
}

// settings converts c to validated settings.
func (c Config) settings() (config.Config, error) {
	program := config.Program{Embedded: true, EmbeddedHooks: c.hasHooks(), Args: c.Args, Environ: c.Environ, Read: os.ReadFile}
	if c.File != "" {
		program.Settings = append(program.Settings, config.ProgramSetting{Name: "config", Texts: []string{c.File}, Origin: "Config.File"})
	}
	values := reflect.ValueOf(c)
	for _, setting := range config.Settings() {
		field, ok := fieldOf(setting.Name)
		if !ok {
			continue
		}
		if texts := settingTexts(values.FieldByIndex(field.Index), setting.ZeroText); texts != nil {
			program.Settings = append(program.Settings, config.ProgramSetting{Name: setting.Name, Texts: texts, Origin: "Config." + field.Name})
		}
	}
	for _, route := range c.Routes {
		program.Routes = append(program.Routes, config.Route{Prefix: route.Prefix, Keys: route.Key, KeyLimit: route.KeyLimit, FirstByteTimeout: route.FirstByteTimeout, UpstreamIdleTimeout: route.UpstreamIdleTimeout, TotalTimeout: route.TotalTimeout, Headers: route.Headers.rules()})
	}
	if rules := c.Headers.rules(); !rules.IsEmpty() {
		program.Headers = &rules
	}
	return config.Compose(program)
}

// rules converts the rules to those of the settings.
func (r HeaderRules) rules() headerrules.Config {
	return headerrules.Config{Request: r.Request.rules(), Response: r.Response.rules()}
}

// rules converts the rules for one direction.
func (f HeaderFields) rules() headerrules.Rules {
	convert := func(fields []HeaderField) (converted []headerrules.Field) {
		for _, field := range fields {
			converted = append(converted, headerrules.Field(field))
		}
		return converted
	}
	return headerrules.Rules{Set: convert(f.Set), Add: convert(f.Add), Remove: f.Remove}
}

// fieldOf returns the field of Config for a setting. Its name is that of the setting without
// dashes, ignoring case, with an optional plural s.
func fieldOf(setting string) (reflect.StructField, bool) {
	name := strings.ReplaceAll(setting, "-", "")
	if isExcluded(setting) {
		return reflect.StructField{}, false
	}
	return reflect.TypeFor[Config]().FieldByNameFunc(func(field string) bool {
		return strings.EqualFold(field, name) || strings.EqualFold(field, name+"s")
	})
}

// settingTexts returns the values of a field as text of the configuration, or nil if the field is
// zero.
func settingTexts(field reflect.Value, zeroText string) []string {
	if field.IsZero() {
		return nil
	}
	switch value := field.Interface().(type) {
	case string:
		return []string{value}
	case bool:
		return []string{"true"}
	case []string:
		return value
	case time.Duration:
		return []string{choose(value < 0, zeroText, value.String())}
	case int:
		return []string{choose(value < 0, zeroText, strconv.Itoa(value))}
	case int64:
		return []string{choose(value < 0, zeroText, strconv.FormatInt(value, 10))}
	case []netip.Prefix:
		texts := []string{}
		for _, prefix := range value {
			texts = append(texts, prefix.String())
		}
		return texts
	}
	panic(fmt.Sprintf("embed: a field of type %T", field.Interface()))
}

// choose returns ifTrue if the condition is true, and ifFalse otherwise.
func choose(condition bool, ifTrue, ifFalse string) string {
	if condition {
		return ifTrue
	}
	return ifFalse
}
