//go:build linux

package netns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// unusedLinkAddr is a link address that no host has.
const unusedLinkAddr = "02:00:00:00:0b:ad"

// commandTimeout is the timeout of one ip command.
const commandTimeout = 10 * time.Second

// Net is a network of hosts. It is not safe for concurrent use.
type Net struct {
	// Gateway is the address of the test on the control network.
	Gateway string

	name          string // prefix of the names of its devices
	hosts         []*Host
	usedAddresses int // number of addresses that ChangeAddress has used
}

// Host is one network namespace.
type Host struct {
	// Namespace is its name for ip netns exec.
	Namespace string
	// Data is its address for the other hosts, and Control its address for the test.
	Data, Control string

	index        int      // number of the host, from 0
	blockedHosts []int    // numbers of the hosts to which it cannot send
	isolated     bool     // disconnected from all other hosts
	rules        []string // rules of its packet filter; empty means that it has no filter
}

// Available returns nil if network namespaces are possible on this machine. Otherwise the error is the
// reason.
func Available() error {
	if os.Geteuid() != 0 {
		return errors.New("netns: network namespaces need root")
	}
	if _, err := exec.LookPath("ip"); err != nil {
		return fmt.Errorf("netns: network namespaces need the ip command (iproute2): %w", err)
	}
	return probe().spaces
}

// Filters returns nil if DropPercent, DropPort and Reset are possible on this machine. Otherwise the
// error is the reason.
func Filters() error {
	if err := Available(); err != nil {
		return err
	}
	if _, err := exec.LookPath("nft"); err != nil {
		return fmt.Errorf("netns: loss and resets need the nft command (nftables): %w", err)
	}
	return probe().filters
}

// New creates a network of n connected hosts, numbered from 0. serial distinguishes the
// networks of one process.
func New(serial, n int) (*Net, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	if err := removeOrphans(); err != nil {
		return nil, err
	}
	subnet, err := freeSubnet(serial)
	if err != nil {
		return nil, err
	}
	network := &Net{name: fmt.Sprintf("sw%s-%d", strconv.FormatInt(int64(os.Getpid()), 36), serial)}
	if err := network.build(subnet, n); err != nil {
		return nil, errors.Join(err, network.Close())
	}
	return network, nil
}

// build creates the bridges of the data network and of the control network, and then count hosts.
// subnet contains the second and the third byte of the data network, 10.x.y.0/24. The control network
// is the next /24 network.
func (net *Net) build(subnet [2]int, count int) error {
	data, control := net.DataBridge(), net.name+"c"
	for _, bridge := range []string{data, control} {
		if err := ip("link", "add", bridge, "type", "bridge"); err != nil {
			return err
		}
		if err := ip("link", "set", bridge, "up"); err != nil {
			return err
		}
	}
	net.Gateway = fmt.Sprintf("10.%d.%d.254", subnet[0], subnet[1]+1)
	if err := ip("addr", "add", net.Gateway+"/24", "dev", control); err != nil {
		return err
	}
	for i := range count {
		host := &Host{
			Namespace: fmt.Sprintf("%sn%d", net.name, i), index: i,
			Data:    fmt.Sprintf("10.%d.%d.%d", subnet[0], subnet[1], i+1),
			Control: fmt.Sprintf("10.%d.%d.%d", subnet[0], subnet[1]+1, i+1),
		}
		net.hosts = append(net.hosts, host)
		if err := net.connect(host, data, control); err != nil {
			return err
		}
	}
	return nil
}

// connect creates the namespace of a host and its two links. data and control are the names of the
// bridges.
func (net *Net) connect(host *Host, data, control string) error {
	if err := ip("netns", "add", host.Namespace); err != nil {
		return err
	}
	if err := ip("-n", host.Namespace, "link", "set", "lo", "up"); err != nil {
		return err
	}
	for _, link := range []struct{ outer, inner, bridge, addr string }{
		{net.dataLink(host.index), "data0", data, host.Data},
		{fmt.Sprintf("%sk%d", net.name, host.index), "ctl0", control, host.Control},
	} {
		for _, args := range [][]string{
			{"link", "add", link.outer, "type", "veth", "peer", "name", link.inner, "netns", host.Namespace},
			{"link", "set", link.outer, "master", link.bridge, "up"},
			{"-n", host.Namespace, "addr", "add", link.addr + "/24", "dev", link.inner},
			{"-n", host.Namespace, "link", "set", link.inner, "up"},
		} {
			if err := ip(args...); err != nil {
				return err
			}
		}
	}
	return nil
}

// dataLink returns the name of the outer end of the data link of a host.
func (net *Net) dataLink(i int) string { return fmt.Sprintf("%sd%d", net.name, i) }

// DataBridge returns the device of the test on the data network. It has only a link-local address.
func (net *Net) DataBridge() string { return net.name + "b" }

// Host returns host i.
func (net *Net) Host(i int) *Host { return net.hosts[i] }

// Isolate disconnects host i from all other hosts.
func (net *Net) Isolate(i int) error {
	net.hosts[i].isolated = true
	return ip("link", "set", net.dataLink(i), "nomaster")
}

// Block drops packets from one host to another. The other direction still works.
func (net *Net) Block(from, to int) error {
	host := net.hosts[from]
	if slices.Contains(host.blockedHosts, to) {
		return nil // another fault has blocked it already; Heal removes the entry once
	}
	host.blockedHosts = append(host.blockedHosts, to)
	return ip("-n", host.Namespace, "neigh", "replace", net.hosts[to].Data, "lladdr", unusedLinkAddr, "dev", "data0", "nud", "permanent")
}

// DropBoth drops all packets between two hosts.
func (net *Net) DropBoth(a, b int) error {
	return errors.Join(net.Block(a, b), net.Block(b, a))
}

// Partition disconnects hosts of different groups. A host in no group keeps all of its
// connections.
func (net *Net) Partition(groups ...[]int) error {
	var errs []error
	for i, group := range groups {
		for _, other := range slices.Concat(groups[i+1:]...) {
			for _, host := range group {
				errs = append(errs, net.DropBoth(host, other))
			}
		}
	}
	return errors.Join(errs...)
}

// Bridge disconnects the left hosts from the right ones. The middle host reaches both.
func (net *Net) Bridge(middle int, left, right []int) error {
	if slices.Contains(left, middle) || slices.Contains(right, middle) {
		return fmt.Errorf("netns: host %d is in the middle and on a side", middle)
	}
	return net.Partition(left, right)
}

// Heal ends all faults.
func (net *Net) Heal() error {
	var errs []error
	for _, host := range net.hosts {
		errs = append(errs, net.unfilter(host))
		if host.isolated {
			errs = append(errs, ip("link", "set", net.dataLink(host.index), "master", net.name+"b"))
			host.isolated = false
		}
		for _, to := range host.blockedHosts {
			errs = append(errs, ip("-n", host.Namespace, "neigh", "del", net.hosts[to].Data, "dev", "data0"))
		}
		host.blockedHosts = nil
	}
	return errors.Join(errs...)
}

// Close removes the hosts and the bridges. The processes in them must have ended.
func (net *Net) Close() error {
	var errs []error
	for _, host := range net.hosts {
		errs = append(errs, ip("netns", "del", host.Namespace), removeNameserver(host.Namespace))
	}
	for _, link := range links() {
		if strings.HasPrefix(link, net.name) {
			errs = append(errs, removeLink(link))
		}
	}
	return errors.Join(errs...)
}

// removeLink removes a network device. It returns no error if the device does not exist any more,
// because the kernel removes the links of a deleted namespace a moment later.
func removeLink(name string) error {
	err := ip("link", "del", name)
	if err != nil && slices.Contains(links(), name) {
		return err
	}
	return nil
}

// Command returns the command line that runs args in the host. The process keeps its
// process ID.
func (h *Host) Command(args ...string) []string {
	return append([]string{"ip", "netns", "exec", h.Namespace}, args...)
}

// AddAddress gives the host an additional address, with the prefix length of its network. The
// address does not conflict with other networks of this machine.
func (h *Host) AddAddress(prefix string) error {
	return ip("-n", h.Namespace, "addr", "add", prefix, "dev", "data0")
}

// freeSubnet returns the second and the third byte of two adjacent /24 networks that the machine does
// not use. It returns the first of the two.
func freeSubnet(serial int) ([2]int, error) {
	for attempt := range 200 {
		subnet := [2]int{128 + (os.Getpid()+attempt)%100, serial * 2 % 250}
		routes, err := output("-o", "route", "show", "to", "root", fmt.Sprintf("10.%d.0.0/16", subnet[0]))
		if err != nil {
			return subnet, err
		}
		prefix := fmt.Sprintf("10.%d.%d.", subnet[0], subnet[1]+1)
		if !strings.Contains(routes, prefix) {
			return subnet, nil
		}
	}
	return [2]int{}, errors.New("netns: no free subnet below 10.128.0.0/9")
}

// ip runs the ip command, and ignores its output.
func ip(args ...string) error {
	_, err := output(args...)
	return err
}

// output runs the ip command and returns its output.
func output(args ...string) (string, error) { return runIP("", args...) }

// runIP runs the ip command with this standard input, and returns its standard output.
func runIP(input string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, "ip", args...) //nolint:gosec // the arguments are this package's own
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr = strings.NewReader(input), &stderr
	output, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("netns: ip %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return string(output), nil
}
