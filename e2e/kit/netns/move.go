//go:build linux

package netns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// netnsConfigDir is the directory in which ip netns exec finds files that replace those of /etc in a
// namespace.
const netnsConfigDir = "/etc/netns"

// ChangeAddress gives host i another data address, which was never used before. Packets to the old
// address are lost. No fault of Block may be active. A network has a hundred further addresses.
func (net *Net) ChangeAddress(i int) error {
	host := net.hosts[i]
	if net.usedAddresses++; net.usedAddresses > 100 {
		return errors.New("netns: no address is left to move to")
	}
	next := fmt.Sprintf("%s.%d", host.Data[:strings.LastIndexByte(host.Data, '.')], 100+net.usedAddresses)
	err := errors.Join(
		ip("-n", host.Namespace, "addr", "del", host.Data+"/24", "dev", "data0"),
		ip("-n", host.Namespace, "addr", "add", next+"/24", "dev", "data0"))
	host.Data = next
	return err
}

// Nameserver makes the hosts use a name server, at port 53 of an address, for all names.
func (net *Net) Nameserver(addr string) error {
	var errs []error
	for _, host := range net.hosts {
		dir := filepath.Join(netnsConfigDir, host.Namespace)
		errs = append(errs, os.MkdirAll(dir, 0o755), //nolint:gosec // as /etc is
			os.WriteFile(filepath.Join(dir, "resolv.conf"), []byte("nameserver "+addr+"\n"), 0o644)) //nolint:gosec // as it is there
	}
	return errors.Join(errs...)
}

// removeNameserver removes the files of Nameserver for a namespace.
func removeNameserver(namespace string) error {
	return os.RemoveAll(filepath.Join(netnsConfigDir, namespace))
}
