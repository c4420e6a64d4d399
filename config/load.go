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

// load is Load with a layer that overrides all others.
func load(table []setting, first layer, p Program) (Config, error) {
	c := Default()
	c.Embedded, c.Hooked = p.Embedded, p.Hooked
	c.from = make(map[string]string)
	flags, problems, help := flagLayer(table, p.Args)
	if help {
		return c, ErrHelp
	}
	env, wrong := envLayer(table, p.Environ)
	problems = append(problems, wrong...)
	layers := []layer{first, flags, env}
	if f := openFile(table, layers, p.Read); f != nil {
		problems = append(problems, f.problems...)
		layers = append(layers, f.layer)
		c.Routes = f.routes
		if f.from != "" {
			c.from[routesKey] = f.from
		}
	}
	if p.Routes != nil {
		c.Routes = p.Routes
		c.from[routesKey] = "Config.Routes"
	}
	broken := make(map[string]bool)
	for _, s := range table {
		if p, ok := c.take(s, layers); !ok {
			problems = append(problems, p)
			broken[s.name] = true
		}
	}
	c.complete()
	problems = append(problems, c.judge(broken)...)
	return c, failure(problems)
}

// openFile reads the file that the first layer with the setting config specifies.
func openFile(table []setting, layers []layer, read func(string) ([]byte, error)) *file {
	for _, l := range layers {
		g, ok := l["config"]
		if !ok {
			continue
		}
		path := g.texts[0]
		if path == "" {
			return nil
		}
		data, err := read(path)
		if err != nil {
			return &file{problems: []Problem{{
				Key: "config", Value: path, From: g.from, Wrong: err.Error(), Remedy: "name a file that can be read",
			}}}
		}
		return parseFile(table, path, data)
	}
	return nil
}

// take sets s from the first layer that contains it.
func (c *Config) take(s setting, layers []layer) (Problem, bool) {
	for _, l := range layers {
		g, ok := l[s.name]
		if !ok {
			continue
		}
		c.from[s.name] = g.from
		v := s.bind(c)
		f := v.set(g.texts)
		if f == nil {
			return Problem{}, true
		}
		return Problem{Key: s.name, Value: join(g.texts), From: g.from, Wrong: f.wrong, Remedy: f.remedy}, false
	}
	return Problem{}, true
}

// complete derives defaults that depend on other settings: listen addresses if there is a secret, ports of
// advertised hosts, and a stream grace that is not longer than the drain timeout.
func (c *Config) complete() {
	if c.SecretFile != "" {
		if !c.given("gossip") {
			c.Gossip = ":7946"
		}
		if !c.given("peer") {
			c.Peer = ":7947"
		}
	}
	c.GossipAdvertise = withPort(c.GossipAdvertise, c.Gossip)
	c.PeerAdvertise = withPort(c.PeerAdvertise, c.Peer)
	if !c.given("stream-grace") {
		c.StreamGrace = min(c.StreamGrace, c.DrainTimeout)
	}
}
