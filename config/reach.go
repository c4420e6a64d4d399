package config

import (
	"net"
	"net/netip"
	"strings"

	"shardway/internal/address"
)

// reachRules returns the rules for a node that joins nodes on other machines: they must be able to reach
// it. The rules do not look up names, because a name is resolved only when the node joins.
func (c *Config) reachRules() []rule {
	far := c.farthest()
	if far == "" {
		return nil
	}
	const unguarded = "set --secret-file to the cluster's secret (shardway keygen creates one), so that the node listens on all addresses; or set an address of this machine with --"
	var rules []rule
	reached := true // a node without a secret gets one line for all its ports
	for _, x := range []struct{ name, bind, advertise string }{
		{"gossip", c.Gossip, c.GossipAdvertise}, {"peer", c.Peer, c.PeerAdvertise},
	} {
		remedy := "name an address of this machine with --" + x.name + ", like :" + portOf(x.bind)
		if !c.given(x.name) && c.SecretFile == "" {
			remedy = unguarded + x.name + ", and add --insecure if all hosts that can reach it are trusted"
		}
		// Another program may accept connections and forward them to the peer port. Gossip sends from
		// its listen address.
		forwarded := x.name == "peer" && x.advertise != "" && !address.IsLoopback(x.advertise)
		near := address.IsLoopback(x.bind) && !forwarded
		rules = append(rules, rule{
			x.name, "join", !near || !reached,
			"join names " + far + ", and that machine cannot reach a loopback address", remedy,
		}, rule{
			x.name + "-advertise", "join", !address.IsLoopback(x.advertise) || near,
			"join names " + far + ", where a loopback address means that machine itself", "remove it, or set the address at which the other nodes reach this one",
		})
		reached = reached && !near
	}
	return rules
}

// farthest returns the first join address that is certainly not on loopback, or "" if there is none.
func (c *Config) farthest() string {
	for _, j := range c.Join {
		host, _, err := net.SplitHostPort(j)
		if err != nil {
			host = strings.Trim(j, "[]")
		}
		if ip, err := netip.ParseAddr(host); err == nil && !ip.Unmap().IsLoopback() {
			return j
		}
	}
	return ""
}

// portOf returns the port of a bind address.
func portOf(bind string) string { return bind[strings.LastIndex(bind, ":")+1:] }
