package config

import "errors"

// ErrHelp reports that the command line asks for help, with --help or -h.
var ErrHelp = errors.New("config: help wanted")

// Load reads the settings from the command line (without the name of the command), the environment (see
// os.Environ) and the YAML file that one of them specifies. It reads the file with read. The error is
// ErrHelp, or an *Error with all problems, including those of Validate. With an error, the Config
// contains the valid settings.
func Load(args, environ []string, read func(path string) ([]byte, error)) (Config, error) {
	return load(settings(), make(layer), Program{Args: args, Environ: environ, Read: read})
}

// load is Load for a Program. The layer overrides has precedence over the command line.
func load(table []setting, overrides layer, program Program) (Config, error) {
	cfg := Default()
	cfg.Embedded, cfg.EmbeddedHooks = program.Embedded, program.EmbeddedHooks
	cfg.origins = make(map[string]string)
	flags, problems, help := flagLayer(table, program.Args)
	if help {
		return cfg, ErrHelp
	}
	env, envProblems := envLayer(table, program.Environ)
	problems = append(problems, envProblems...)
	layers := []layer{overrides, flags, env}
	configFile := readConfigFile(table, layers, program.Read)
	if configFile != nil {
		problems = append(problems, configFile.problems...)
		layers = append(layers, configFile.layer)
		cfg.Routes = configFile.routes
		if configFile.routesOrigin != "" {
			cfg.origins[routesKey] = configFile.routesOrigin
		}
		cfg.Headers = configFile.headers
		if configFile.headersOrigin != "" {
			cfg.origins[headersKey] = configFile.headersOrigin
		}
	}
	if program.Routes != nil {
		cfg.Routes = program.Routes
		cfg.origins[routesKey] = "Config.Routes"
	}
	if program.Headers != nil {
		cfg.Headers = *program.Headers
		cfg.origins[headersKey] = "Config.Headers"
	}
	unparsed := make(map[string]bool)
	for _, s := range table {
		if problem, ok := cfg.setFromLayers(s, layers); !ok {
			problems = append(problems, problem)
			unparsed[s.name] = true
		}
	}
	cfg.deriveDefaults()
	problems = append(problems, cfg.addServices(table, configFile, unparsed)...)
	problems = append(problems, cfg.findProblems(unparsed)...)
	return cfg, newError(problems)
}

// readConfigFile reads the configuration file that the setting config names, in the layer of the highest
// priority that contains this setting. layers starts with that of the highest priority. It returns nil if no
// file is named.
func readConfigFile(table []setting, layers []layer, read func(string) ([]byte, error)) *file {
	for _, values := range layers {
		given, ok := values["config"]
		if !ok {
			continue
		}
		path := given.texts[0]
		if path == "" {
			return nil
		}
		data, err := read(path)
		if err != nil {
			return &file{problems: []Problem{{
				Key: "config", Value: path, Origin: given.origin, Message: err.Error(), Remedy: "name a file that can be read",
			}}}
		}
		return parseFile(table, path, data)
	}
	return nil
}

// setFromLayers sets the target from the layer of the highest priority that contains it. ok is false if the
// value cannot be parsed. In that case the setting keeps its default, and problem describes the error.
func (c *Config) setFromLayers(target setting, layers []layer) (problem Problem, ok bool) {
	for _, values := range layers {
		given, ok := values[target.name]
		if !ok {
			continue
		}
		c.origins[target.name] = given.origin
		field := target.valueOf(c)
		invalid := field.set(given.texts)
		if invalid == nil {
			return Problem{}, true
		}
		return Problem{Key: target.name, Value: joinTexts(given.texts), Origin: given.origin, Message: invalid.message, Remedy: invalid.remedy}, false
	}
	return Problem{}, true
}

// deriveDefaults derives defaults from other settings: listen addresses if there is a secret, ports of
// advertised hosts, and a stream grace up to the drain timeout.
func (c *Config) deriveDefaults() {
	if c.SecretFile != "" {
		if !c.isSet("gossip") {
			c.Gossip = ":7946"
		}
		if !c.isSet("peer") {
			c.Peer = ":7947"
		}
	}
	c.GossipAdvertise = addListenPort(c.GossipAdvertise, c.Gossip)
	c.PeerAdvertise = addListenPort(c.PeerAdvertise, c.Peer)
	if !c.isSet("stream-grace") {
		c.StreamGrace = min(c.StreamGrace, c.DrainTimeout)
	}
}
