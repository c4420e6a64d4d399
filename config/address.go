package config

import (
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"

	"shardway/internal/address"
)

// checkBind checks a listen address: host:port, where the host may be empty.
func checkBind(s string) *flaw {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return &flaw{"not an address", "write host:port, like 127.0.0.1:8080, :8080 or [::1]:8080"}
	}
	if host != "" && !address.IsHost(host) {
		return &flaw{strconv.Quote(host) + " is neither an IP address nor a name", "write host:port, like 127.0.0.1:8080, :8080 or [::1]:8080"}
	}
	return checkPort(port)
}

// checkPort checks a port.
func checkPort(s string) *flaw {
	if !address.IsPort(s) {
		return &flaw{strconv.Quote(s) + " is not a port", "give a fixed port from 1 to 65535"}
	}
	return nil
}

// checkReach checks an address that other nodes dial: host:port, without a wildcard.
func checkReach(s string) *flaw {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return &flaw{"not an address", "write host:port, like 10.0.0.5:7946 or [2001:db8::5]:7946"}
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		return &flaw{"other nodes cannot connect to an address without a host", "set an address at which the other nodes reach this one, such as 10.0.0.5:" + port}
	}
	if !address.IsHost(host) {
		return &flaw{strconv.Quote(host) + " is neither an IP address nor a name", "write host:port, like 10.0.0.5:7946"}
	}
	return checkPort(port)
}

// checkJoin checks an address or a name of the cluster. The port is optional. A name of SRV records must
// not have a port, because the records contain it.
func checkJoin(s string) *flaw {
	if strings.HasPrefix(s, "_") {
		return checkSRV(s)
	}
	if _, err := netip.ParseAddr(s); err == nil {
		return nil
	}
	if !strings.Contains(s, ":") {
		if address.IsHost(s) {
			return nil
		}
		return &flaw{"neither an address nor a name", "write host:port or a name that DNS knows (A, AAAA or SRV)"}
	}
	return checkReach(s)
}

// checkSRV checks the name of SRV records (RFC 2782).
func checkSRV(s string) *flaw {
	if host, port, err := net.SplitHostPort(s); err == nil {
		return &flaw{"the port comes with the SRV records of a name that starts with _", "write " + host + " without :" + port}
	}
	if !address.IsHost(s) || !regexp.MustCompile(`^_[^.]+\._(tcp|udp)\.[^.]`).MatchString(s) {
		return &flaw{"no name of SRV records", "write _SERVICE._tcp.NAME, like _gossip._tcp.shardway.example, or a name with A or AAAA records, which starts with no _"}
	}
	return nil
}

// overlap reports whether two listen addresses conflict.
func overlap(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB {
		return false
	}
	return wildcard(hostA) || wildcard(hostB) || canonical(hostA) == canonical(hostB)
}

// serves reports whether a connection to target certainly reaches the listener at bind. For a wildcard,
// this is certain only for loopback: the same port on another host belongs to another program.
func serves(bind, target string) bool {
	host, _, err := net.SplitHostPort(bind)
	return err == nil && overlap(bind, target) && (!wildcard(host) || address.IsLoopback(target))
}

func wildcard(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

func canonical(host string) string {
	if host == "localhost" {
		return "127.0.0.1"
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String()
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// withPort adds the port of the listener to an advertised host.
func withPort(advertise, bind string) string {
	_, port, err := net.SplitHostPort(bind)
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
func checkUpstream(s string) *flaw {
	_, err := address.ParseUpstream(s)
	return flawOf(err)
}

// checkHooks checks the URL or path of the hooks.
func checkHooks(s string) *flaw {
	_, err := address.ParseHooks(s)
	return flawOf(err)
}

// HooksAt returns the address of the hooks. It returns the zero value if no hooks are configured, if
// the app runs in this process, or if the setting is invalid.
func (c *Config) HooksAt() address.Hooks {
	h, err := address.ParseHooks(c.Hooks)
	if c.Hooks == "" || err != nil {
		return address.Hooks{}
	}
	return h
}

// hooksAddress returns the address of hooks that are not at Upstream, in the form of UpstreamAddress.
func (c *Config) hooksAddress() string {
	if h := c.HooksAt(); h.Upstream.Network == "tcp" {
		return h.Upstream.Address
	}
	return ""
}

// hooksInTheOpen reports whether the hooks share the address of the app. The proxy must then reject client
// requests by their path.
func (c *Config) hooksInTheOpen() bool {
	app, err := address.ParseUpstream(c.Upstream)
	h := c.HooksAt()
	if err != nil || !h.Own() || app.Network != h.Upstream.Network {
		return false
	}
	return app == h.Upstream || app.Network == "tcp" && overlap(app.Address, h.Upstream.Address)
}

// UpstreamAddress returns the address of the app as host:port. It is empty for a gateway, for a Unix
// socket, and for an invalid setting.
func (c *Config) UpstreamAddress() string {
	if u, err := address.ParseUpstream(c.Upstream); err == nil && u.Network == "tcp" {
		return u.Address
	}
	return ""
}

// checkEndpoint checks one announced endpoint.
func checkEndpoint(e Endpoint) *flaw {
	switch e.Name {
	case "http", "peer", "admin":
		return &flaw{"the node announces this one itself", "choose another name"}
	}
	if !regexp.MustCompile(`^[a-z0-9]([a-z0-9_.-]{0,30}[a-z0-9])?$`).MatchString(e.Name) {
		return &flaw{"no name for an endpoint", "use up to 32 small letters, digits, dots and dashes"}
	}
	return checkReach(e.Address)
}
