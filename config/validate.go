package config

import (
	"errors"
	"strconv"
	"strings"

	"shardway/internal/address"
	"shardway/internal/valueerr"
	"shardway/keysource"
)

// Validate checks the settings and the rules between them. The error is an *Error with all problems.
func (c *Config) Validate() error {
	return failure(c.judge(nil))
}

// judge returns all problems. It skips settings that could not be parsed, because they have their
// defaults instead of the intended values.
func (c *Config) judge(broken map[string]bool) []Problem {
	skip := make(map[string]bool)
	for name := range broken {
		skip[name] = true
	}
	var problems []Problem
	add := func(name string, f *flaw) {
		if f != nil {
			problems = append(problems, c.problem(name, f))
			skip[name] = true
		}
	}
	for _, s := range settings() {
		if !skip[s.name] {
			add(s.name, s.bind(c).check())
		}
	}
	add(routesKey, c.checkRoutes())
	for _, r := range c.rules() {
		if skip[r.key] || r.beside != "" && skip[r.beside] || r.holds {
			continue
		}
		problems = append(problems, c.problem(r.key, &flaw{r.wrong, r.remedy}))
	}
	for _, b := range c.Bounds() {
		if b.Holds || b.Advice || b.concerns(skip) {
			continue
		}
		problems = append(problems, c.problem(b.keys[0], &flaw{"breaks " + b.Rule + ": " + b.Why, b.remedy}))
	}
	return problems
}

// problem returns a Problem with the current value of a setting.
func (c *Config) problem(name string, f *flaw) Problem {
	p := Problem{Key: name, From: c.source(name), Wrong: f.wrong, Remedy: f.remedy}
	if s, ok := lookup(settings(), name); ok {
		p.Value = s.bind(c).String()
	}
	return p
}

// rule is a condition between settings. Conditions between timings are Bounds.
type rule struct {
	key    string // the setting to change
	beside string // the setting it is compared to; empty: none
	holds  bool
	wrong  string
	remedy string
}

func (c *Config) rules() []rule {
	rules := []rule{
		{"data", "", c.Data != "", "the node has no directory for its identity", "set a directory, such as ./data"},
		{"upstream", "", !c.Embedded || c.Upstream == "", "the app is in this process", "remove it, or run the app as a separate process"},
		{"health", "", !c.Embedded || c.Health == "", "the app is in this process and has no health check", "leave it out"},
		{"hooks", "", !c.Embedded || c.Hooks == "", "the app is in this process, and its hooks are Go functions", "remove it, and set Config.Acquire and Config.Release"},
		{"hooks", "upstream", !c.hooksInTheOpen(), "this is the address of the app (upstream), so clients could call the hooks", "set only a path, such as /hooks, which clients cannot request, or use a separate address"},
		{"key", "", len(c.Keys) > 0, "no key source is set", "set at least one, such as header:X-Shard-Key"},
		{"on-missing-key", "upstream", c.OnMissingKey != keysource.MissingLocal || !c.Gateway(), "a gateway has no app of its own", "set --upstream, or use reject, hash-path or cookie"},
		{
			"bootstrap-expect", "max-voters", c.BootstrapExpect <= c.MaxVoters,
			"the nodes that start a cluster are its first voters, and only " + strconv.Itoa(c.MaxVoters) + " may vote (max-voters)",
			"set it to at most " + strconv.Itoa(c.MaxVoters) + "; further nodes join automatically",
		},
		{"max-shard-conns", "max-upstream-conns", c.MaxShardConns <= c.MaxUpstreamConns, "one shard cannot have more connections than all shards together: max-upstream-conns is " + strconv.Itoa(c.MaxUpstreamConns), "lower it, or raise max-upstream-conns"},
		{"max-header-bytes-total", "max-header-bytes", c.MaxHeaderBytesTotal >= c.MaxHeaderBytes, "it is below max-header-bytes, " + bytes(c.MaxHeaderBytes) + "", "raise it, or lower max-header-bytes"},
		{"max-body-total", "body-buffer", c.MaxBodyTotal >= c.BodyBuffer, "it is below body-buffer, " + bytes(c.BodyBuffer) + "", "raise it, or lower body-buffer"},
		{"body-buffer", "queue-bytes", c.BodyBuffer <= c.QueueBytes, "a body of this size does not fit in the queue: queue-bytes is " + bytes(c.QueueBytes), "lower it, or raise queue-bytes"},
	}
	rules = append(rules, rule{"access-log", "", c.AccessLog != "", "it is neither a file name nor one of the allowed words", "set off, stdout, or the name of a file"})
	rules = append(rules, c.keyConfigRules()...)
	rules = append(rules, c.requiredRules()...)
	rules = append(rules, c.fileRules()...)
	rules = append(rules, c.exposureRules()...)
	rules = append(rules, c.reachRules()...)
	return append(rules, c.collisionRules()...)
}

// requiredRules returns the rules for addresses that must not be empty.
func (c *Config) requiredRules() []rule {
	var rules []rule
	for _, b := range c.binds() {
		if b.name != "probes" {
			rules = append(rules, rule{b.name, "", b.addr != "", "it is empty", "set host:port"})
		}
	}
	return rules
}

// fileRules returns the rules for files that must be set together.
func (c *Config) fileRules() []rule {
	var rules []rule
	together := func(why string, files map[string]string, order ...string) {
		for _, name := range order {
			for _, other := range order {
				rules = append(rules, rule{
					name, "", files[name] == "" || files[other] != "", "it requires " + other, why,
				})
			}
		}
	}
	together("set all three, or none to use certificates that are derived from the secret",
		map[string]string{"tls-ca": c.TLSCA, "tls-node-cert": c.TLSNodeCert, "tls-node-key": c.TLSNodeKey},
		"tls-ca", "tls-node-cert", "tls-node-key")
	together("name both", map[string]string{"tls-cert": c.TLSCert, "tls-key": c.TLSKey}, "tls-cert", "tls-key")
	together("name both", map[string]string{"admin-cert": c.AdminCert, "admin-key": c.AdminKey}, "admin-cert", "admin-key")
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
	for _, b := range c.binds() {
		if b.public || b.addr == "" {
			continue
		}
		_, port, _ := strings.Cut(b.addr[strings.LastIndex(b.addr, ":"):], ":")
		guarded, with := c.SecretFile != "", "set --secret-file to a secret of the cluster (shardway keygen creates one)"
		switch b.name {
		case "admin":
			guarded, with = c.Guarded(), "require authentication (--admin-read-token-file, --admin-write-token-file, or client certificates)"
		case "peer":
			guarded = c.Sealed()
		}
		rules = append(rules, rule{
			b.name, "insecure", c.Insecure || guarded || address.IsLoopback(b.addr),
			"other hosts could reach it, and it is not protected",
			with + ", or listen on loopback (127.0.0.1:" + port + "), or add --insecure if all hosts that can reach it are trusted",
		})
	}
	return rules
}

// bind is a listen address of the node.
type bind struct {
	name   string
	addr   string
	public bool // meant for others, secret or not
}

func (c *Config) binds() []bind {
	return []bind{
		{"listen", c.Listen, true},
		{"admin", c.Admin, false},
		{"gossip", c.Gossip, false},
		{"peer", c.Peer, false},
		{"probes", c.Probes, true},
	}
}

// collisionRules returns the rules for distinct ports of all listeners and the app.
func (c *Config) collisionRules() []rule {
	var rules []rule
	all := c.binds()
	for i, b := range all {
		for _, earlier := range all[:i] {
			rules = append(rules, rule{
				b.name, earlier.name, !overlap(earlier.addr, b.addr),
				"the same address as " + earlier.name + " (" + earlier.addr + ")", "use another port",
			})
		}
		rules = append(rules, rule{
			"upstream", b.name, !serves(b.addr, c.UpstreamAddress()),
			"this node listens there itself (" + b.name + " " + b.addr + ")", "name the address of the app",
		}, rule{
			"hooks", b.name, !serves(b.addr, c.hooksAddress()),
			"this node listens there itself (" + b.name + " " + b.addr + ")", "set the address of the app's hooks",
		})
	}
	return rules
}

// checkKeySource checks one key source.
func checkKeySource(s string) *flaw {
	source, err := keysource.Parse(s)
	if err == nil && source.Kind == keysource.Mint {
		err = keysource.MintEverywhere()
	}
	return flawOf(err)
}

// checkRoutes checks the table of path prefixes.
func (c *Config) checkRoutes() *flaw {
	_, err := keysource.NewTable(keysource.Spec{Routes: c.KeyRoutes()})
	return flawOf(err) // of several, the first
}

// keyConfigRules limits the size of the key configuration, because nodes exchange it.
func (c *Config) keyConfigRules() []rule {
	k := c.KeyConfig()
	if _, err := keysource.NewTable(k.Spec); err != nil {
		return nil // reported with the setting that is wrong
	}
	_, err := k.Canonical()
	m := (*valueerr.Error)(nil)
	if !errors.As(err, &m) {
		return nil
	}
	return []rule{{routesKey, "", false, m.Wrong, m.Remedy}}
}

// KeyRoutes returns the table of path prefixes as package keysource reads it.
func (c *Config) KeyRoutes() []keysource.Route {
	routes := make([]keysource.Route, len(c.Routes))
	for i, r := range c.Routes {
		routes[i] = keysource.Route{Prefix: r.Prefix, Sources: r.Keys}
	}
	return routes
}

func join(texts []string) string { return strings.Join(texts, ",") }
