package config

import "slices"

// LoadAnnouncement reads the settings of the command announce, from the same sources as Load. Config.Node is the name
// of the service. The other fields have their meaning for a node. The error is ErrHelp, or an *Error with
// all problems.
func LoadAnnouncement(args, environ []string, read func(path string) ([]byte, error)) (Config, error) {
	table := announceSettings()
	cfg := Default()
	cfg.origins = make(map[string]string)
	flags, problems, help := flagLayer(table, args)
	if help {
		return cfg, ErrHelp
	}
	env, envProblems := envLayer(slices.Concat(table, settings()), environ) // the variables of a node are no mistakes
	problems = append(problems, envProblems...)
	layers := []layer{flags, env}
	if file := readConfigFile(table, layers, read); file != nil {
		problems = append(problems, file.problems...)
		problems = append(problems, file.nodeOnlyProblems()...)
		layers = append(layers, file.layer)
	}
	skip := make(map[string]bool)
	for _, s := range table {
		problem, ok := cfg.setFromLayers(s, layers)
		if !ok {
			problems = append(problems, problem)
			skip[s.name] = true
			continue
		}
		if invalid := s.valueOf(&cfg).check(); invalid != nil {
			problems = append(problems, cfg.announceProblem(s.name, invalid))
			skip[s.name] = true
		}
	}
	cfg.deriveAnnounceDefaults()
	for _, rule := range cfg.announceRules() {
		if !rule.satisfied && !skip[rule.key] && !skip[rule.comparedKey] {
			problems = append(problems, cfg.announceProblem(rule.key, &valueProblem{rule.message, rule.remedy}))
		}
	}
	return cfg, newError(problems)
}

// AnnounceFlags returns the settings of the command announce, in the order of the help.
func AnnounceFlags() []Flag { return flagsOf(announceSettings()) }

// announceSettings returns the table of settings of the command announce: the name of the service, and settings of a
// node.
func announceSettings() []setting {
	table := []setting{
		newSetting("name", "NAME", "", "name of the service, which no other announced service has",
			func(c *Config) settingValue { return textValue{&c.Node, checkID} }),
	}
	for _, name := range []string{"endpoint", "join", "config", "secret-file", "gossip", "gossip-advertise", "insecure", "log-level", "log-format"} {
		s, _ := findSetting(settings(), name)
		s.reloadable = false
		switch name {
		case "gossip-advertise": // without a port, the port of the gossip port applies, even if it is free
			s.valueOf = func(c *Config) settingValue {
				return textValue{&c.GossipAdvertise, func(addr string) *valueProblem { return checkAdvertiseAddr(addListenPort(addr, ":7946")) }}
			}
		case "endpoint":
			s.help = "address of the service, like redis=10.0.0.9:6379, which endpoints shows"
		case "gossip":
			s.shownDefault = "a free port of 127.0.0.1, with a secret of all addresses"
		case "secret-file":
			s.help = "the cluster's secret, from shardway keygen: encrypts gossip"
		case "insecure":
			s.help = "allow gossip on an external address without encryption"
		}
		table = append(table, s)
	}
	return table
}

// deriveAnnounceDefaults derives the address of the gossip port. By default, the port is a free one, because a
// node on the same machine has the usual one.
func (c *Config) deriveAnnounceDefaults() {
	if !c.isSet("gossip") {
		c.Gossip = "127.0.0.1:0"
		if c.SecretFile != "" {
			c.Gossip = ":0"
		}
	}
}

// announceRules returns the conditions between the settings of the command announce.
func (c *Config) announceRules() []rule {
	rules := []rule{
		{"name", "", c.Node != "", "the service has no name", "set it, such as --name cache-1"},
		{"endpoint", "", len(c.Endpoints) > 0, "there is no address to announce", "set at least one, such as --endpoint redis=10.0.0.9:6379"},
		{"join", "", len(c.Join) > 0, "the cluster is unknown", "set the gossip address of a node, such as --join 10.0.0.1:7946"},
	}
	table := announceSettings()
	for _, rule := range slices.Concat(c.exposureRules(), c.reachRules()) {
		if _, ok := findSetting(table, rule.key); ok {
			rules = append(rules, rule)
		}
	}
	return rules
}

// announceProblem is newProblem for the command announce.
func (c *Config) announceProblem(name string, invalid *valueProblem) Problem {
	problem := Problem{Key: name, Origin: c.Origin(name), Message: invalid.message, Remedy: invalid.remedy}
	if s, ok := findSetting(announceSettings(), name); ok {
		problem.Value = s.shownValue(c)
	}
	return problem
}

// nodeOnlyProblems returns a problem for each table of the file that is only for nodes.
func (f *file) nodeOnlyProblems() (problems []Problem) {
	for _, table := range []struct{ key, origin string }{{routesKey, f.routesOrigin}, {headersKey, f.headersOrigin}} {
		if table.origin != "" {
			problems = append(problems, Problem{Key: table.key, Origin: table.origin, Message: "unknown key", Remedy: "remove it"})
		}
	}
	return problems
}
