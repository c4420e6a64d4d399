package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"shardway/internal/suggest"
	"shardway/internal/valueerr"
	"shardway/keysource"
	"shardway/shardmap"
)

const (
	// servicesKey is the YAML key of the table of services, which a flag cannot contain.
	servicesKey = "services"
	// pathsKey is the key of the table of path prefixes of a service. The key routes of a service contains
	// the hosts and path prefixes of its requests.
	pathsKey = "paths"
)

// Service contains the settings of one service. The key configuration of the cluster contains some of them,
// see keysource.Service. The others are settings of this node.
type Service struct {
	Name string
	// Routes contains the hosts and path prefixes of the requests for the service.
	Routes []string
	// Settings contains all settings that apply to the service: those of its own table, and those of the
	// node otherwise. Its Services are nil. Without an upstream, this node does not run the service.
	Settings Config
}

// serviceSettingNames returns the names of the settings that a service can have.
func serviceSettingNames() []string {
	return []string{
		"shards", "replicas", "key", "on-missing-key", "cookie",
		"upstream", "health", "health-method", "health-host", "health-header", "health-status", "health-body", "hooks",
		"max-shard-inflight", "max-key-inflight", "key-limit", "shard-queue", "first-byte-timeout", "total-timeout", "upstream-idle-timeout",
	}
}

// ownSettingNames returns the names of the settings that a service does not inherit from the node. The node
// cannot have them next to services.
func ownSettingNames() []string { return []string{"upstream", "shards", "key"} }

// serviceSettings returns the rows of the settings that a service can have.
func serviceSettings(table []setting) []setting {
	return slices.DeleteFunc(slices.Clone(table), func(row setting) bool { return !slices.Contains(serviceSettingNames(), row.name) })
}

// HasServices reports whether the configuration has a table of services. Without one, the node runs the
// service default with all its settings.
func (c *Config) HasServices() bool { return c.Services != nil }

// ShardCount returns the number of shards of a cluster that this node creates.
func (c *Config) ShardCount() int {
	if !c.HasServices() {
		return c.Shards
	}
	total := 0
	for i := range c.Services {
		total += c.Services[i].Settings.Shards
	}
	return total
}

// Runs reports whether this node runs the service.
func (sv *Service) Runs() bool { return sv.Settings.Upstream != "" }

// key returns the key of a setting of the service in problems and values.
func (sv *Service) key(name string) string { return serviceKey(sv.Name, name) }

func serviceKey(service, name string) string {
	key := servicesKey + "." + service
	if name == "" {
		return key
	}
	return key + "." + strings.ReplaceAll(name, "-", "_")
}

// keySettings returns the part of the service that belongs to the key configuration of the cluster.
func (sv *Service) keySettings() keysource.Service {
	return keysource.Service{
		Name: sv.Name, Routes: sv.Routes, Shards: sv.Settings.Shards, Keys: keysource.Spec{Sources: sv.Settings.Keys, Routes: sv.Settings.KeyRoutes()},
		Missing: sv.Settings.OnMissingKey, Cookie: sv.Settings.cookieScope(),
	}
}

// keyServices returns the services for the key configuration of the cluster.
func (c *Config) keyServices() []keysource.Service {
	services := make([]keysource.Service, len(c.Services))
	for i := range c.Services {
		services[i] = c.Services[i].keySettings()
	}
	return services
}

// readServices reads the table of services.
func (f *file) readServices(table []setting, entry *ast.MappingValueNode) {
	line := lineOf(entry.Key)
	f.servicesOrigin = f.origin(line)
	entries, ok := tableEntries(entry.Value)
	if !ok || len(entries) == 0 {
		f.addProblem(line, servicesKey, "", "the value is not a table of services", "write one line for each service, like chat: {routes: [chat.example.com], key: path:2, upstream: http://127.0.0.1:3001}")
		return
	}
	for _, serviceEntry := range f.uniqueEntries(entries, servicesKey) {
		service := &file{path: f.path, layer: make(layer), service: scalarText(serviceEntry.Key)}
		if settings, isTable := tableEntries(serviceEntry.Value); isTable {
			for _, e := range service.uniqueEntries(settings, "") {
				service.readServiceEntry(table, e)
			}
		} else {
			service.addProblem(lineOf(serviceEntry.Key), "", "", "the value is not a table", "write settings like {routes: [chat.example.com], upstream: http://127.0.0.1:3001}")
		}
		f.problems = append(f.problems, service.problems...)
		f.services = append(f.services, service)
	}
	slices.SortFunc(f.services, func(a, b *file) int { return strings.Compare(a.service, b.service) })
}

// readServiceEntry reads one entry of a service. f contains the settings of the service.
func (f *file) readServiceEntry(table []setting, entry *ast.MappingValueNode) {
	rows := serviceSettings(table)
	key, line := scalarText(entry.Key), lineOf(entry.Key)
	_, isSetting := findByYAML(rows, key)
	switch {
	case key == routesKey:
		texts, ok := scalarTexts(entry.Value, ",")
		if !ok {
			f.problems = append(f.problems, Problem{
				Key: serviceKey(f.service, routesKey), Origin: f.origin(line), Message: "the value is not a list of hosts and path prefixes",
				Remedy: "write it like [chat.example.com, example.com/chat, /chat]; settings of single paths have the key " + pathsKey,
			})
		}
		f.serviceRoutes = texts
		f.layer[routesKey] = layerValue{texts: texts, origin: f.origin(line)}
	case key == pathsKey:
		f.readRoutes(entry)
	case key == headersKey || isSetting:
		f.readEntry(rows, entry)
	default:
		message, remedy := "unknown key", "remove it"
		known := append(settingNames(rows, setting.yaml), routesKey, pathsKey, headersKey)
		if match, isKnown := findByYAML(table, key); isKnown {
			message, remedy = "not a setting of a service", "set "+match.yaml()+" outside of "+servicesKey+": it applies to all services"
		} else if near := suggest.Word(strings.ReplaceAll(key, "-", "_"), known); near != "" {
			remedy = "did you mean " + near + "?"
		}
		f.addProblem(line, key, "", message, remedy)
	}
}

// addServices adds the services of the file to the configuration. It returns the problems of values that
// cannot be parsed, and adds their keys to unparsed.
func (c *Config) addServices(table []setting, configFile *file, unparsed map[string]bool) (problems []Problem) {
	if configFile == nil || configFile.servicesOrigin == "" {
		return nil
	}
	c.origins[servicesKey] = configFile.servicesOrigin
	rows, defaults := serviceSettings(table), Default()
	services := make([]Service, 0, len(configFile.services)) // not nil
	for _, values := range configFile.services {
		for _, problem := range values.problems {
			unparsed[problem.Key] = true
		}
		service := Service{Name: values.service, Routes: values.serviceRoutes, Settings: *c}
		settings := &service.Settings
		settings.origins = maps.Clone(c.origins)
		settings.Upstream, settings.FurtherUpstreams, settings.Shards, settings.Keys = "", nil, defaults.Shards, defaults.Keys
		settings.Routes, settings.Headers = values.routes, values.headers
		for _, name := range append(ownSettingNames(), routesKey, headersKey) {
			delete(settings.origins, name)
		}
		for key, origin := range map[string]string{pathsKey: values.routesOrigin, headersKey: values.headersOrigin, routesKey: values.layer[routesKey].origin} {
			if origin != "" {
				settings.origins[key] = origin
			}
		}
		for _, row := range rows {
			problem, ok := settings.setFromLayers(row, []layer{values.layer})
			if !ok {
				problem.Key = service.key(row.name)
				problems = append(problems, problem)
				unparsed[problem.Key] = true
			}
		}
		services = append(services, service)
	}
	c.Services = services
	return problems
}

// newProblem returns a Problem with the current value of a setting of the service.
func (sv *Service) newProblem(name string, invalid *valueProblem) Problem {
	problem := sv.Settings.newProblem(name, invalid)
	problem.Key = sv.key(name)
	return problem
}

// sets reports whether the table of the service contains the setting. parent is the Config of the node.
func (sv *Service) sets(parent *Config, name string) bool {
	return sv.Settings.isSet(name) && (sv.Settings.Origin(name) != parent.Origin(name) || slices.Contains(ownSettingNames(), name))
}

// serviceProblems returns the problems of the services. It skips settings that could not be parsed.
func (c *Config) serviceProblems(skip map[string]bool) (problems []Problem) {
	if !c.HasServices() {
		return nil
	}
	problems = c.refusedSettingProblems()
	for i := range c.Services {
		service := &c.Services[i]
		for _, row := range serviceSettings(settings()) {
			if skip[service.key(row.name)] || !service.sets(c, row.name) {
				continue
			}
			if problem := row.valueOf(&service.Settings).check(); problem != nil {
				problems = append(problems, service.newProblem(row.name, problem))
				skip[service.key(row.name)] = true
			}
		}
		if problem := c.checkHeaders(&service.Settings.Headers); problem != nil {
			problems = append(problems, service.newProblem(headersKey, problem))
		}
		if problem := service.Settings.checkRouteSettings(); problem != nil {
			problems = append(problems, service.newProblem(pathsKey, problem))
		}
		for _, rule := range c.serviceRules(service) {
			if !rule.satisfied && !skip[service.key(rule.key)] {
				problems = append(problems, service.newProblem(rule.key, &valueProblem{rule.message, rule.remedy}))
			}
		}
	}
	return append(problems, c.serviceKeyProblems(skip)...)
}

// refusedSettingProblems returns the problems of settings that the node cannot have next to services.
func (c *Config) refusedSettingProblems() (problems []Problem) {
	const noEffect = "it would have no effect next to services"
	for _, name := range append(ownSettingNames(), routesKey) {
		if c.isSet(name) {
			target := strings.ReplaceAll(name, "-", "_")
			if name == routesKey {
				target = pathsKey
			}
			problems = append(problems, c.newProblem(name, &valueProblem{noEffect, "move it to a service, such as " + serviceKey("default", target)}))
		}
	}
	if c.Exec != "" {
		problems = append(problems, c.newProblem("exec", &valueProblem{"the node starts the processes of one app, and it has a table of services", "remove exec, and set the upstream of a service; or remove services"}))
	}
	if c.Embedded {
		problems = append(problems, c.newProblem(servicesKey, &valueProblem{"the app is in this process, and it is the only service", "remove services"}))
	}
	if count := len(c.Upstreams()); count > shardmap.MaxInstances {
		problem := c.newProblem(servicesKey, &valueProblem{
			fmt.Sprintf("the services have %d app instances on this node, more than %d", count, shardmap.MaxInstances), "remove upstreams from some services: other nodes run them then",
		})
		problem.Value = strconv.Itoa(count)
		problems = append(problems, problem)
	}
	return problems
}

// serviceRules returns the rules between the settings of a service.
func (c *Config) serviceRules(service *Service) []rule {
	own := &service.Settings
	rules := []rule{
		{"upstream", "", own.Upstream != "" || !service.sets(c, "upstream"), "it is empty", "set the address of the app, or remove it: this node forwards requests for the service then"},
		{"hooks", "upstream", !own.hooksShareUpstreamAddress(), "this is the address of the app (upstream), so clients could call the hooks", "set only a path, such as /hooks, which clients cannot request, or use a separate address"},
		{"hooks", "upstream", len(own.FurtherUpstreams) == 0 || !own.HooksAddress().HasSeparateAddress(), "the node has several app instances of the service, and each needs its own hooks", "set only a path, such as /hooks, which is called at each instance"},
		{"key", "", len(own.Keys) > 0, "no key source is set", "set at least one, such as header:X-Shard-Key"},
		{
			"cookie", "on-missing-key", own.Cookie == "" || own.OnMissingKey == keysource.MissingCookie || !service.sets(c, "cookie"),
			"Shardway sets a cookie only for requests without a key, and on_missing_key is " + string(own.OnMissingKey), "set on_missing_key to cookie, or remove it",
		},
		{
			"shard-queue", "max-shard-inflight", own.ShardQueue == 0 || own.MaxShardInflight > 0 || own.MaxKeyInflight > 0 || !service.sets(c, "shard-queue"),
			"requests wait there only for a limit of requests in flight, and there is none", "set max_shard_inflight or max_key_inflight, such as 1, or remove it",
		},
		{"shard-queue", "queue-requests", own.ShardQueue <= c.QueueRequests/2 || !service.sets(c, "shard-queue"), "one shard may use up to half of the request queue, and queue_requests is " + strconv.Itoa(c.QueueRequests), "lower it, or raise queue_requests"},
	}
	for _, health := range own.healthRules() {
		if service.sets(c, health.key) || health.key == "health-body" && service.sets(c, "health-method") {
			rules = append(rules, health)
		}
	}
	for _, listener := range c.listenAddrs() {
		hasCollision := slices.ContainsFunc(own.Upstreams(), func(upstream string) bool { return reachesListener(listener.addr, UpstreamAddressOf(upstream)) })
		rules = append(rules, rule{
			"upstream", listener.name, !hasCollision, "this node listens there itself (" + listener.name + " " + listener.addr + ")", "name the address of the app",
		}, rule{
			"hooks", listener.name, !service.Runs() || !reachesListener(listener.addr, own.separateHooksHostPort()),
			"this node listens there itself (" + listener.name + " " + listener.addr + ")", "set the address of the app's hooks",
		})
	}
	return append(rules, c.hookRulesBetween(service)...)
}

// hookRulesBetween returns the rules between the hooks of a service and those of the services before it.
// Hooks decide whether a shard may return to an app that owned it before, and a node decides this for all
// its shards alike.
func (c *Config) hookRulesBetween(service *Service) (rules []rule) {
	if !service.Runs() {
		return nil
	}
	for i := range c.Services {
		earlier := &c.Services[i]
		if earlier.Name == service.Name {
			break
		}
		if !earlier.Runs() {
			continue
		}
		own, other := service.Settings.HooksAddress(), earlier.Settings.HooksAddress()
		rules = append(rules, rule{
			"hooks", "", (service.Settings.Hooks == "") == (earlier.Settings.Hooks == ""),
			"of the services on one node, either all have hooks or none, and " + service.Name + " and " + earlier.Name + " differ", "set hooks for both, or run the two services on different nodes",
		}, rule{
			"hooks", "", !own.HasSeparateAddress() || own != other, "the service " + earlier.Name + " has the same hooks, and each app needs its own", "set only a path, such as /hooks, which is called at the app of each service",
		})
	}
	return rules
}

// serviceKeyProblems returns the problems of the key configuration of all services: their names, routes,
// shards and key sources.
func (c *Config) serviceKeyProblems(skip map[string]bool) (problems []Problem) {
	_, err := keysource.NewServices(c.keyServices())
	if err == nil {
		_, err = c.KeyConfig().Canonical() // it may be too large
	}
	if err == nil {
		return nil
	}
	list := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		list = joined.Unwrap()
	}
	for _, err := range list {
		valueErr := (*valueerr.Error)(nil)
		if !errors.As(err, &valueErr) {
			problems = append(problems, Problem{Key: servicesKey, Origin: c.Origin(servicesKey), Message: err.Error(), Remedy: "correct it"})
			continue
		}
		if skip[valueErr.Key] {
			continue
		}
		skip[valueErr.Key] = strings.HasSuffix(valueErr.Key, ".key") // rules may report it again
		problems = append(problems, Problem{Key: valueErr.Key, Value: valueErr.Value, Origin: c.serviceOrigin(valueErr.Key), Message: valueErr.Wrong, Remedy: valueErr.Remedy})
	}
	return problems
}

// serviceOrigin returns the origin of a setting with a key such as services.chat.routes.
func (c *Config) serviceOrigin(key string) string {
	for i := range c.Services {
		service := &c.Services[i]
		if name, ok := strings.CutPrefix(key, service.key("")+"."); ok {
			if origin := service.Settings.Origin(strings.ReplaceAll(name, "_", "-")); origin != OriginDefault {
				return origin
			}
		}
	}
	return c.Origin(servicesKey)
}

// serviceValues returns the settings that the tables of the services contain, and the routes and the number of
// shards of each service.
func (c *Config) serviceValues() (values []Value) {
	for i := range c.Services {
		service := &c.Services[i]
		values = append(values, Value{Key: service.key(routesKey), Value: strings.Join(service.Routes, ","), Origin: service.Settings.Origin(routesKey)})
		for _, row := range serviceSettings(settings()) {
			if service.sets(c, row.name) || slices.Contains(ownSettingNames(), row.name) {
				values = append(values, Value{Key: service.key(row.name), Value: row.shownValue(&service.Settings), Origin: service.Settings.Origin(row.name)})
			}
		}
		if own := &service.Settings; !own.Headers.IsEmpty() {
			values = append(values, Value{Key: service.key(headersKey), Value: own.Headers.String(), Origin: own.Origin(headersKey)})
		}
		for _, path := range service.Settings.Routes {
			values = append(values, Value{Key: service.key(pathsKey) + " " + path.Prefix, Value: path.String(), Origin: service.Settings.Origin(pathsKey)})
		}
	}
	return values
}

// addServiceChanges adds the differences between the services of two configurations. A running node applies
// other routes and key sources. Another app requires a restart.
func (changes *Changes) addServiceChanges(after, before *Config) {
	names := map[string]bool{}
	for _, list := range [][]Service{after.Services, before.Services} {
		for i := range list {
			names[list[i].Name] = true
		}
	}
	if after.HasServices() != before.HasServices() {
		changes.Restart = append(changes.Restart, servicesKey)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		next, previous := after.service(name), before.service(name)
		if next == nil || previous == nil {
			changes.Live = append(changes.Live, serviceKey(name, ""))
			isRun := next != nil && next.Runs() || previous != nil && previous.Runs()
			if isRun {
				changes.Restart = append(changes.Restart, serviceKey(name, "upstream"))
			}
			continue
		}
		for _, row := range serviceSettings(settings()) {
			switch {
			case row.valueOf(&next.Settings).String() == row.valueOf(&previous.Settings).String():
			case row.reloadable:
				changes.Live = append(changes.Live, next.key(row.name))
			default:
				changes.Restart = append(changes.Restart, next.key(row.name))
			}
		}
		if !slices.Equal(next.Routes, previous.Routes) {
			changes.Live = append(changes.Live, next.key(routesKey))
		}
		if !slices.EqualFunc(next.Settings.Routes, previous.Settings.Routes, sameRoute) {
			changes.Live = append(changes.Live, next.key(pathsKey))
		}
		if !next.Settings.Headers.Equal(&previous.Settings.Headers) {
			changes.Live = append(changes.Live, next.key(headersKey))
		}
	}
}

// service returns the service with the name, or nil.
func (c *Config) service(name string) *Service {
	i := slices.IndexFunc(c.Services, func(service Service) bool { return service.Name == name })
	if i < 0 {
		return nil
	}
	return &c.Services[i]
}
