package config

import (
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"shardway/internal/address"
)

// checkListenAddr checks a listen address: host:port, where the host may be empty.
func checkListenAddr(addr string) *valueProblem {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return &valueProblem{"not an address", "write host:port, like 127.0.0.1:8080, :8080 or [::1]:8080"}
	}
	if host != "" && !address.IsHost(host) {
		return &valueProblem{strconv.Quote(host) + " is neither an IP address nor a name", "write host:port, like 127.0.0.1:8080, :8080 or [::1]:8080"}
	}
	return checkPort(port)
}

// checkPort checks a port.
func checkPort(port string) *valueProblem {
	if !address.IsPort(port) {
		return &valueProblem{strconv.Quote(port) + " is not a port", "give a fixed port from 1 to 65535"}
	}
	return nil
}

// checkAdvertiseAddr checks an address that other nodes dial. It must be host:port and not a wildcard address.
func checkAdvertiseAddr(addr string) *valueProblem {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return &valueProblem{"not an address", "write host:port, like 10.0.0.5:7946 or [2001:db8::5]:7946"}
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		return &valueProblem{"other nodes cannot connect to an address without a host", "set an address at which the other nodes reach this one, such as 10.0.0.5:" + port}
	}
	if !address.IsHost(host) {
		return &valueProblem{strconv.Quote(host) + " is neither an IP address nor a name", "write host:port, like 10.0.0.5:7946"}
	}
	return checkPort(port)
}

// joinMulticastDNS is the value of join that finds nodes by multicast DNS. It equals gossip.MulticastDNS.
const joinMulticastDNS = "mdns"

// checkJoin checks an address or DNS name to join, or joinMulticastDNS. The port is optional. An SRV name must not have a port,
// because the SRV records supply it.
func checkJoin(target string) *valueProblem {
	if target != joinMulticastDNS && strings.EqualFold(target, joinMulticastDNS) {
		return &valueProblem{"the word for multicast DNS has small letters", "write " + joinMulticastDNS}
	}
	if strings.HasPrefix(target, "_") {
		return checkSRV(target)
	}
	if _, err := netip.ParseAddr(target); err == nil {
		return nil
	}
	if !strings.Contains(target, ":") {
		if address.IsHost(target) {
			return nil
		}
		return &valueProblem{"neither an address nor a name", "write host:port or a DNS name (A, AAAA or SRV)"}
	}
	return checkAdvertiseAddr(target)
}

// checkSRV checks the name of SRV records (RFC 2782).
func checkSRV(name string) *valueProblem {
	if host, port, err := net.SplitHostPort(name); err == nil {
		return &valueProblem{"the port comes with the SRV records of a name that starts with _", "write " + host + " without :" + port}
	}
	if !address.IsHost(name) || !regexp.MustCompile(`^_[^.]+\._(tcp|udp)\.[^.]`).MatchString(name) {
		return &valueProblem{"not the name of SRV records", "write _SERVICE._tcp.NAME, like _gossip._tcp.shardway.example, or a name with A or AAAA records, which does not start with _"}
	}
	return nil
}

// addrsConflict reports whether two listen addresses conflict.
func addrsConflict(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB {
		return false
	}
	return isWildcardHost(hostA) || isWildcardHost(hostB) || canonicalHost(hostA) == canonicalHost(hostB)
}

// reachesListener reports whether a connection to target certainly reaches the listener at listenAddr. For a
// wildcard, this is certain only for loopback: the same port on another host belongs to another program.
func reachesListener(listenAddr, target string) bool {
	host, _, err := net.SplitHostPort(listenAddr)
	if err != nil || !addrsConflict(listenAddr, target) {
		return false
	}
	return !isWildcardHost(host) || address.IsLoopback(target)
}

func isWildcardHost(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

func canonicalHost(host string) string {
	if host == "localhost" {
		return "127.0.0.1"
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String()
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// addListenPort adds the port of the listener to an advertised host.
func addListenPort(advertise, listenAddr string) string {
	_, port, err := net.SplitHostPort(listenAddr)
	if advertise == "" || err != nil {
		return advertise
	}
	if ip, err := netip.ParseAddr(advertise); err == nil {
		return net.JoinHostPort(ip.String(), port)
	}
	if strings.Contains(advertise, ":") {
		return advertise
	}
	return net.JoinHostPort(advertise, port)
}

// checkUpstream checks the address of the app.
func checkUpstream(upstream string) *valueProblem {
	_, err := address.ParseUpstream(upstream)
	return problemOf(err)
}

// checkHooks checks the URL or path of the hooks.
func checkHooks(hooks string) *valueProblem {
	_, err := address.ParseHooks(hooks)
	return problemOf(err)
}

// HooksAddress returns the address of the hooks. It returns the zero value if no hooks are configured, if
// the app runs in this process, or if the setting is invalid.
func (c *Config) HooksAddress() address.Hooks {
	hooks, err := address.ParseHooks(c.Hooks)
	if c.Hooks == "" || err != nil {
		return address.Hooks{}
	}
	return hooks
}

// separateHooksHostPort returns the address of hooks that are not at Upstream, in the form of UpstreamAddress.
func (c *Config) separateHooksHostPort() string {
	if hooks := c.HooksAddress(); hooks.Upstream.Network == "tcp" {
		return hooks.Upstream.Address
	}
	return ""
}

// hooksShareUpstreamAddress reports whether the hooks share the address of the app. The proxy must then reject client
// requests by their path.
func (c *Config) hooksShareUpstreamAddress() bool {
	hooks := c.HooksAddress()
	return slices.ContainsFunc(c.Upstreams(), func(upstream string) bool {
		app, err := address.ParseUpstream(upstream)
		if err != nil || !hooks.HasSeparateAddress() || app.Network != hooks.Upstream.Network {
			return false
		}
		return app == hooks.Upstream || app.Network == "tcp" && addrsConflict(app.Address, hooks.Upstream.Address)
	})
}

// UpstreamAddress returns the address of the first app instance as host:port. It is empty for a gateway, for a Unix
// socket, and for an invalid setting.
func (c *Config) UpstreamAddress() string { return UpstreamAddressOf(c.Upstream) }

// checkEndpoint checks one announced endpoint.
func checkEndpoint(endpoint Endpoint) *valueProblem {
	switch endpoint.Name {
	case "http", "peer", "admin":
		return &valueProblem{"nodes announce their own address under this name", "choose another name"}
	}
	if !regexp.MustCompile(`^[a-z0-9]([a-z0-9_.-]{0,30}[a-z0-9])?$`).MatchString(endpoint.Name) {
		return &valueProblem{"no name for an endpoint", "use up to 32 small letters, digits, dots and dashes"}
	}
	return checkAdvertiseAddr(endpoint.Address)
}
