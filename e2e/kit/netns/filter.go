//go:build linux

package netns

import (
	"fmt"
	"slices"
	"strings"
)

// Lose drops this many percent of what host i sends to the others, and of what
// they send to it, each packet by itself.
func (t *Net) Lose(i, percent int) error {
	chance := ""
	if percent < 100 {
		chance = fmt.Sprintf("numgen random mod 100 < %d ", percent)
	}
	return t.filter(t.hosts[i],
		`add rule ip chaos in iifname "data0" `+chance+"drop",
		`add rule ip chaos out oifname "data0" `+chance+"drop")
}

// DropPort loses every TCP segment to that port of what the others send to host i, and of what host
// i sends to them.
func (t *Net) DropPort(i int, port string) error {
	return t.filter(t.hosts[i],
		fmt.Sprintf(`add rule ip chaos in iifname "data0" tcp dport %s drop`, port),
		fmt.Sprintf(`add rule ip chaos out oifname "data0" tcp dport %s drop`, port))
}

// Reset answers every TCP segment that host from sends to host to with a forged
// reset: new connections are refused, established ones break. The other host is
// not told; it learns of it when it sends something itself. Datagrams pass, and
// so does the other direction until it is an answer.
func (t *Net) Reset(from, to int) error {
	return t.filter(t.hosts[from],
		fmt.Sprintf(`add rule ip chaos out ip daddr %s tcp flags & rst == 0 reject with tcp reset`, t.hosts[to].Data))
}

// filter adds rules to those of h, all of which begin to work at once.
func (t *Net) filter(h *Host, rules ...string) error {
	h.rules = slices.Concat(h.rules, rules)
	return h.nft(slices.Concat([]string{
		"add table ip chaos",
		"delete table ip chaos",
		"add table ip chaos",
		"add chain ip chaos in { type filter hook input priority 0; }",
		"add chain ip chaos out { type filter hook output priority 0; }",
	}, h.rules))
}

// unfilter removes them all.
func (t *Net) unfilter(h *Host) error {
	if len(h.rules) == 0 {
		return nil
	}
	h.rules = nil
	return h.nft([]string{"delete table ip chaos"})
}

// nft carries out all of the commands in h, or none.
func (h *Host) nft(commands []string) error {
	_, err := feed(strings.Join(commands, "\n")+"\n", "netns", "exec", h.Namespace, "nft", "-f", "-")
	return err
}
