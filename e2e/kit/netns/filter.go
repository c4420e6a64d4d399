//go:build linux

package netns

import (
	"fmt"
	"slices"
	"strings"
)

// DropPercent drops this percentage of the packets from host i to the others and from the others
// to host i. Each packet is dropped independently.
func (net *Net) DropPercent(i, percent int) error {
	chance := ""
	if percent < 100 {
		chance = fmt.Sprintf("numgen random mod 100 < %d ", percent)
	}
	return net.filter(net.hosts[i],
		`add rule ip chaos in iifname "data0" `+chance+"drop",
		`add rule ip chaos out oifname "data0" `+chance+"drop")
}

// DropPort drops every TCP segment to this port, from the other hosts to host i and from
// host i to them.
func (net *Net) DropPort(i int, port string) error {
	return net.filter(net.hosts[i],
		fmt.Sprintf(`add rule ip chaos in iifname "data0" tcp dport %s drop`, port),
		fmt.Sprintf(`add rule ip chaos out oifname "data0" tcp dport %s drop`, port))
}

// Reset answers every TCP segment from one host to another with a forged RST packet. New
// connections are refused, and established ones break. The other host does not receive
// the RST, and detects the fault when it sends. Datagrams pass, and so does the other
// direction, except for responses.
func (net *Net) Reset(from, to int) error {
	return net.filter(net.hosts[from],
		fmt.Sprintf(`add rule ip chaos out ip daddr %s tcp flags & rst == 0 reject with tcp reset`, net.hosts[to].Data))
}

// filter adds rules to the packet filter of a host. All rules take effect at once.
func (net *Net) filter(host *Host, rules ...string) error {
	host.rules = slices.Concat(host.rules, rules)
	return host.nft(slices.Concat([]string{
		"add table ip chaos",
		"delete table ip chaos",
		"add table ip chaos",
		"add chain ip chaos in { type filter hook input priority 0; }",
		"add chain ip chaos out { type filter hook output priority 0; }",
	}, host.rules))
}

// unfilter removes all rules from the packet filter of a host.
func (net *Net) unfilter(host *Host) error {
	if len(host.rules) == 0 {
		return nil
	}
	host.rules = nil
	return host.nft([]string{"delete table ip chaos"})
}

// nft runs commands of the nft program in the host. If one command fails, none takes effect.
func (h *Host) nft(commands []string) error {
	_, err := runIP(strings.Join(commands, "\n")+"\n", "netns", "exec", h.Namespace, "nft", "-f", "-")
	return err
}
