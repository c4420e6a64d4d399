package config

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"shardway/internal/address"
	"shardway/internal/valueerr"
	"shardway/keysource"
)

// Validate checks the settings and the rules between them. The error is an *Error with all problems.
func (c *Config) Validate() error {
	return newError(c.findProblems(nil))
}

// findProblems returns all problems. It skips settings that could not be parsed, because they have their
// defaults instead of the intended values.
func (c *Config) findProblems(unparsed map[string]bool) []Problem {
	skip := make(map[string]bool)
	for name := range unparsed {
		skip[name] = true
	}
	var problems []Problem
	add := func(name string, problem *valueProblem) {
		if problem != nil {
			problems = append(problems, c.newProblem(name, problem))
			skip[name] = true
		}
	}
	for _, s := range settings() {
		if !skip[s.name] {
			add(s.name, s.valueOf(c).check())
		}
	}
	add(headersKey, c.checkHeaders(&c.Headers))
	add(routesKey, c.checkRoutes())
	problems = append(problems, c.serviceProblems(skip)...)
	for _, rule := range c.rules() {
		isSkipped := skip[rule.key] || rule.comparedKey != "" && skip[rule.comparedKey]
		if isSkipped || rule.satisfied {
			continue
		}
		problems = append(problems, c.newProblem(rule.key, &valueProblem{rule.message, rule.remedy}))
	}
	for _, bound := range c.Bounds() {
		if bound.Holds || bound.Advice || bound.dependsOnAny(skip) {
			continue
		}
		problems = append(problems, c.newProblem(bound.settings[0], &valueProblem{"breaks " + bound.Rule + ": " + bound.Why, bound.remedy}))
	}
	return problems
}

// newProblem returns a Problem with the current value of a setting.
func (c *Config) newProblem(name string, invalid *valueProblem) Problem {
	problem := Problem{Key: name, Origin: c.Origin(name), Message: invalid.message, Remedy: invalid.remedy}
	if s, ok := findSetting(settings(), name); ok {
		problem.Value = s.shownValue(c)
	}
	return problem
}

// rule is a condition on one setting or between two settings. Conditions between timings are Bounds. message
// and remedy are reported if the rule is not satisfied.
type rule struct {
	key         string // setting that the operator should change
	comparedKey string // setting with which it is compared; empty means none
	satisfied   bool
	message     string
	remedy      string
}

// rules returns the conditions between settings, satisfied or not. The conditions between timings are in Bounds.
func (c *Config) rules() []rule {
	rules := []rule{
		{"data", "", c.Data != "", "the node has no directory for its identity", "set a directory, such as ./data"},
		{"upstream", "", !c.Embedded || c.Upstream == "", "the app is in this process", "remove it, or run the app as a separate process"},
		{"health", "", !c.Embedded || c.Health == "", "the app is in this process and has no health check", "leave it out"},
		{"hooks", "", !c.Embedded || c.Hooks == "", "the app is in this process, and its hooks are Go functions", "remove it, and set Config.Acquire and Config.Release"},
		{"hooks", "upstream", !c.hooksShareUpstreamAddress(), "this is the address of the app (upstream), so clients could call the hooks", "set only a path, such as /hooks, which clients cannot request, or use a separate address"},
		{"hooks", "upstream", len(c.FurtherUpstreams) == 0 || !c.HooksAddress().HasSeparateAddress(), "the node has several app instances, and each needs its own hooks", "set only a path, such as /hooks, which is called at each instance"},
		{"key", "", len(c.Keys) > 0, "no key source is set", "set at least one, such as header:X-Shard-Key"},
		{"on-missing-key", "upstream", c.OnMissingKey != keysource.MissingLocal || !c.Gateway() || c.HasServices(), "a gateway has no app of its own", "set --upstream, or use reject, hash-path or cookie"},
		{
			"bootstrap-expect", "max-voters", c.BootstrapExpect <= c.MaxVoters,
			"the nodes that start a cluster are its first voters, and only " + strconv.Itoa(c.MaxVoters) + " may vote (max-voters)",
			"set it to at most " + strconv.Itoa(c.MaxVoters) + "; further nodes join automatically",
		},
		{"max-shard-conns", "max-upstream-conns", c.MaxShardConns <= c.MaxUpstreamConns, "one shard cannot have more connections than all shards together: max-upstream-conns is " + strconv.Itoa(c.MaxUpstreamConns), "lower it, or raise max-upstream-conns"},
		{"shard-queue", "max-shard-inflight", c.ShardQueue == 0 || c.MaxShardInflight > 0 || c.MaxKeyInflight > 0, "requests wait there only for a limit of requests in flight, and there is none", "set max-shard-inflight or max-key-inflight, such as 1, or remove it"},
		{"shard-queue", "queue-requests", c.ShardQueue <= c.QueueRequests/2, "one shard may use up to half of the request queue, and queue-requests is " + strconv.Itoa(c.QueueRequests), "lower it, or raise queue-requests"},
		{"max-header-bytes-total", "max-header-bytes", c.MaxHeaderBytesTotal >= c.MaxHeaderBytes, "it is below max-header-bytes, " + formatSize(c.MaxHeaderBytes) + "", "raise it, or lower max-header-bytes"},
		{"max-body-total", "body-buffer", c.MaxBodyTotal >= c.BodyBuffer, "it is below body-buffer, " + formatSize(c.BodyBuffer) + "", "raise it, or lower body-buffer"},
		{"body-buffer", "queue-bytes", c.BodyBuffer <= c.QueueBytes, "a body of this size does not fit in the queue: queue-bytes is " + formatSize(c.QueueBytes), "lower it, or raise queue-bytes"},
	}
	rules = append(rules, rule{"access-log", "", c.AccessLog != "", "it is neither a file name nor one of the allowed words", "set off, stdout, or the name of a file"})
	rules = append(rules, c.keySourceRules()...)
	rules = append(rules, c.cookieRules()...)
	rules = append(rules, c.keyConfigRules()...)
	rules = append(rules, c.requiredRules()...)
	rules = append(rules, c.healthRules()...)
	rules = append(rules, c.execRules()...)
	rules = append(rules, c.fileRules()...)
	rules = append(rules, c.exposureRules()...)
	rules = append(rules, c.reachRules()...)
	return append(rules, c.collisionRules()...)
}

// requiredRules returns the rules for addresses that must not be empty.
func (c *Config) requiredRules() []rule {
	var rules []rule
	for _, listener := range c.listenAddrs() {
		if listener.name != "probes" {
			rules = append(rules, rule{listener.name, "", listener.addr != "", "it is empty", "set host:port"})
		}
	}
	return rules
}

// fileRules returns the rules for files that must be set together, such as a certificate and its
// key.
func (c *Config) fileRules() []rule {
	var rules []rule
	allOrNone := func(remedy string, files map[string]string, order ...string) {
		for _, name := range order {
			for _, other := range order {
				rules = append(rules, rule{
					name, "", files[name] == "" || files[other] != "", "it requires " + other, remedy,
				})
			}
		}
	}
	allOrNone("set all three, or none to use certificates that are derived from the secret",
		map[string]string{"tls-ca": c.TLSCA, "tls-node-cert": c.TLSNodeCert, "tls-node-key": c.TLSNodeKey},
		"tls-ca", "tls-node-cert", "tls-node-key")
	allOrNone("name both", map[string]string{"tls-cert": c.TLSCert, "tls-key": c.TLSKey}, "tls-cert", "tls-key")
	allOrNone("name both", map[string]string{"admin-cert": c.AdminCert, "admin-key": c.AdminKey}, "admin-cert", "admin-key")
	for _, ca := range []struct{ name, file string }{{"admin-read-ca", c.AdminReadCA}, {"admin-write-ca", c.AdminWriteCA}} {
		rules = append(rules, rule{
			ca.name, "", ca.file == "" || c.AdminCert != "", "client certificates require TLS, which the admin port does not use",
			"set --admin-cert and --admin-key",
		})
	}
	return rules
}

// exposureRules returns the rules for unprotected ports: without a secret, only app traffic and probes
// may leave the machine, unless insecure is set.
func (c *Config) exposureRules() []rule {
	var rules []rule
	for _, listener := range c.listenAddrs() {
		if listener.public || listener.addr == "" {
			continue
		}
		_, port, _ := strings.Cut(listener.addr[strings.LastIndex(listener.addr, ":"):], ":")
		protected, protection := c.SecretFile != "", "set --secret-file to a secret of the cluster (shardway keygen creates one)"
		switch listener.name {
		case "admin":
			protected, protection = c.RequiresAdminCredentials(), "require authentication (--admin-read-token-file, --admin-write-token-file, or client certificates)"
		case "peer":
			protected = c.UsesPeerTLS()
		}
		rules = append(rules, rule{
			listener.name, "insecure", c.Insecure || protected || address.IsLoopback(listener.addr),
			"other hosts could reach it, and it is not protected",
			protection + ", or listen on loopback (127.0.0.1:" + port + "), or add --insecure if all hosts that can reach it are trusted",
		})
	}
	return rules
}

// listenAddr is a listen address of the node.
type listenAddr struct {
	name   string
	addr   string
	public bool // may be reachable from other machines without a secret
}

func (c *Config) listenAddrs() []listenAddr {
	return []listenAddr{
		{"listen", c.Listen, true},
		{"admin", c.Admin, false},
		{"gossip", c.Gossip, false},
		{"peer", c.Peer, false},
		{"probes", c.Probes, true},
	}
}

// collisionRules returns the rules that all listeners and the app have different addresses.
func (c *Config) collisionRules() []rule {
	var rules []rule
	listeners := c.listenAddrs()
	for i, listener := range listeners {
		for _, earlier := range listeners[:i] {
			rules = append(rules, rule{
				listener.name, earlier.name, !addrsConflict(earlier.addr, listener.addr),
				"the same address as " + earlier.name + " (" + earlier.addr + ")", "use another port",
			})
		}
		rules = append(rules, rule{
			"upstream", listener.name, !slices.ContainsFunc(c.Upstreams(), func(upstream string) bool {
				return reachesListener(listener.addr, UpstreamAddressOf(upstream))
			}),
			"this node listens there itself (" + listener.name + " " + listener.addr + ")", "name the address of the app",
		}, rule{
			"hooks", listener.name, !reachesListener(listener.addr, c.separateHooksHostPort()),
			"this node listens there itself (" + listener.name + " " + listener.addr + ")", "set the address of the app's hooks",
		})
	}
	return rules
}

// checkKeySource checks one key source.
func checkKeySource(text string) *valueProblem {
	_, err := keysource.Parse(text)
	return problemOf(err)
}

// checkRoutes checks the table of path prefixes.
func (c *Config) checkRoutes() *valueProblem {
	if _, err := keysource.NewTable(keysource.Spec{Routes: c.KeyRoutes()}); err != nil {
		return problemOf(err) // the first one, if err joins several
	}
	return c.checkRouteSettings()
}

// checkRouteSettings checks the table of path prefixes except its key sources.
func (c *Config) checkRouteSettings() *valueProblem {
	prefixes := make([]string, len(c.Routes))
	for i, route := range c.Routes {
		prefixes[i] = route.Prefix
		if problem := route.checkSettings(); problem != nil {
			return problem
		}
		if problem := c.checkHeaders(&route.Headers); problem != nil {
			problem.message = strconv.Quote(route.Prefix) + ": headers: " + problem.message
			return problem
		}
	}
	_, err := keysource.NewPrefixes(prefixes)
	return problemOf(err)
}

// checkSettings checks the settings of a route other than its key sources and header rules.
func (r *Route) checkSettings() *valueProblem {
	name, problem := "key_limit", checkKeyLimit(r.KeyLimit)
	if problem == nil {
		name = "first_byte_timeout"
		_, _, problem = routeTimeout(r.FirstByteTimeout)
	}
	if problem == nil {
		name = "upstream_idle_timeout"
		_, _, problem = routeTimeout(r.UpstreamIdleTimeout)
	}
	if problem == nil {
		name = "total_timeout"
		_, _, problem = routeTimeout(r.TotalTimeout)
	}
	if problem != nil {
		problem.message = strconv.Quote(r.Prefix) + ": " + name + ": " + problem.message
	}
	return problem
}

// routeTimeout parses a timeout of a route. Zero means off. isSet is false if the route does not have the
// setting.
func routeTimeout(text string) (timeout time.Duration, isSet bool, problem *valueProblem) {
	if text == "" {
		return 0, false, nil
	}
	problem = parseAndCheck(durationValue{&timeout, 10 * time.Millisecond, 24 * time.Hour, true}, text)
	return timeout, problem == nil, problem
}

// FirstByteLimit returns the value of FirstByteTimeout, where zero means no limit. isSet is false if the route does
// not have the setting.
func (r *Route) FirstByteLimit() (limit time.Duration, isSet bool) {
	limit, isSet, _ = routeTimeout(r.FirstByteTimeout)
	return limit, isSet
}

// UpstreamIdleLimit returns the value of UpstreamIdleTimeout, where zero means no limit. isSet is false if the
// route does not have the setting.
func (r *Route) UpstreamIdleLimit() (limit time.Duration, isSet bool) {
	limit, isSet, _ = routeTimeout(r.UpstreamIdleTimeout)
	return limit, isSet
}

// TotalLimit returns the value of TotalTimeout, where zero means no limit. isSet is false if the route does not
// have the setting.
func (r *Route) TotalLimit() (limit time.Duration, isSet bool) {
	limit, isSet, _ = routeTimeout(r.TotalTimeout)
	return limit, isSet
}

// keySourceRules returns the rules about the order of the key sources.
func (c *Config) keySourceRules() []rule {
	_, err := keysource.NewTable(keysource.Spec{Sources: c.Keys})
	if problem := problemOf(err); problem != nil {
		return []rule{{"key", "", false, problem.message, problem.remedy}}
	}
	return nil
}

// keyConfigRules limits the size of the key configuration, because nodes exchange it.
func (c *Config) keyConfigRules() []rule {
	keyConfig := c.KeyConfig()
	if c.HasServices() {
		return nil // see serviceKeyProblems
	}
	if _, err := keysource.NewTable(keyConfig.Spec); err != nil {
		return nil // findProblems already reports the invalid setting
	}
	if keyConfig.CheckCookie() != nil {
		return nil // see cookieRules
	}
	_, err := keyConfig.Canonical()
	valueErr := (*valueerr.Error)(nil)
	if !errors.As(err, &valueErr) {
		return nil
	}
	return []rule{{routesKey, "", false, valueErr.Wrong, valueErr.Remedy}}
}

// KeyRoutes returns the table of path prefixes as package keysource reads it.
func (c *Config) KeyRoutes() []keysource.Route {
	var routes []keysource.Route
	for _, route := range c.Routes {
		if len(route.Keys) > 0 || !route.hasSettings() {
			routes = append(routes, keysource.Route{Prefix: route.Prefix, Sources: route.Keys})
		}
	}
	return routes
}

// hasSettings reports whether the route has settings other than key sources.
func (r *Route) hasSettings() bool {
	hasTimeout := r.FirstByteTimeout != "" || r.UpstreamIdleTimeout != "" || r.TotalTimeout != ""
	return r.KeyLimit != "" || hasTimeout || !r.Headers.IsEmpty()
}

// HasRouteSettings reports whether any route has settings other than key sources.
func (c *Config) HasRouteSettings() bool {
	return slices.ContainsFunc(c.Routes, func(route Route) bool { return route.hasSettings() })
}

func joinTexts(texts []string) string { return strings.Join(texts, ",") }
