package config

import (
	"net"
	"net/netip"
	"slices"
	"strings"

	"shardway/internal/address"
)

// reachRules returns the rules for a node that joins nodes on other machines: they must be able to reach
// it. The rules do not look up names, because a name is resolved only when the node joins.
func (c *Config) reachRules() []rule {
	if slices.Contains(c.Join, joinMulticastDNS) {
		return c.multicastRules()
	}
	remoteAddr := c.remoteJoinAddr()
	if remoteAddr == "" {
		return nil
	}
	const unguarded = "set --secret-file to the cluster's secret (shardway keygen creates one), so that the node listens on all addresses; or set an address of this machine with --"
	var rules []rule
	reachable := true // a node without a secret gets a single line for all its ports
	for _, port := range []struct{ name, bind, advertise string }{
		{"gossip", c.Gossip, c.GossipAdvertise}, {"peer", c.Peer, c.PeerAdvertise},
	} {
		remedy := "name an address of this machine with --" + port.name + ", like :" + portOf(port.bind)
		if !c.isSet(port.name) && c.SecretFile == "" {
			remedy = unguarded + port.name + ", and add --insecure if all hosts that can reach it are trusted"
		}
		// Another program may accept connections and forward them to the peer port. Gossip sends from
		// its listen address.
		forwarded := port.name == "peer" && port.advertise != "" && !address.IsLoopback(port.advertise)
		onlyLoopback := address.IsLoopback(port.bind) && !forwarded
		rules = append(rules, rule{
			port.name, "join", !onlyLoopback || !reachable,
			"join names " + remoteAddr + ", and that machine cannot reach a loopback address", remedy,
		}, rule{
			port.name + "-advertise", "join", !address.IsLoopback(port.advertise) || onlyLoopback,
			"join names " + remoteAddr + ", where a loopback address means that machine itself", "remove it, or set the address at which the other nodes reach this one",
		})
		reachable = reachable && !onlyLoopback
	}
	return rules
}

// multicastRules returns the rules for a node that finds other nodes by multicast DNS.
func (c *Config) multicastRules() []rule {
	rules := []rule{{
		"join", "", c.SecretFile != "", "mdns finds nodes by multicast DNS, and every host of the network can respond",
		"set --secret-file to the cluster's secret (shardway keygen creates one), or replace mdns with addresses of nodes",
	}}
	if c.SecretFile == "" {
		return rules // the listen addresses depend on it
	}
	for _, port := range []struct{ name, bind, advertise string }{
		{"gossip", c.Gossip, c.GossipAdvertise}, {"peer", c.Peer, c.PeerAdvertise},
	} {
		forwarded := port.name == "peer" && port.advertise != "" && !address.IsLoopback(port.advertise)
		rules = append(rules, rule{
			port.name, "join", forwarded || !address.IsLoopback(port.bind), "join is mdns, and other machines cannot reach a loopback address", "name an address of this machine, like :" + portOf(port.bind),
		}, rule{
			port.name + "-advertise", "join", !address.IsLoopback(port.advertise), "join is mdns, and other machines cannot reach a loopback address", "remove it, or set the address at which the other nodes reach this one",
		})
	}
	return rules
}

// remoteJoinAddr returns the first join address that is certainly not on loopback, or "" if there is none.
func (c *Config) remoteJoinAddr() string {
	for _, target := range c.Join {
		host, _, err := net.SplitHostPort(target)
		if err != nil {
			host = strings.Trim(target, "[]")
		}
		if ip, err := netip.ParseAddr(host); err == nil && !ip.Unmap().IsLoopback() {
			return target
		}
	}
	return ""
}

// portOf returns the port of a listen address.
func portOf(listenAddr string) string { return listenAddr[strings.LastIndex(listenAddr, ":")+1:] }
