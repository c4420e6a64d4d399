//go:build linux

package netns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// etc is where ip netns exec looks for files that replace those of /etc in a namespace.
const etc = "/etc/netns"

// Move gives host i another address among the hosts, which none has had: packets to the
// old one go nowhere. Nothing may be blocked. There are a hundred in all.
func (t *Net) Move(i int) error {
	h := t.hosts[i]
	if t.moves++; t.moves > 100 {
		return errors.New("netns: no address is left to move to")
	}
	next := fmt.Sprintf("%s.%d", h.Data[:strings.LastIndexByte(h.Data, '.')], 100+t.moves)
	err := errors.Join(
		ip("-n", h.Namespace, "addr", "del", h.Data+"/24", "dev", "data0"),
		ip("-n", h.Namespace, "addr", "add", next+"/24", "dev", "data0"))
	h.Data = next
	return err
}

// Nameserver has the hosts ask a name server, at port 53 of an address, for all names.
func (t *Net) Nameserver(addr string) error {
	var errs []error
	for _, h := range t.hosts {
		dir := filepath.Join(etc, h.Namespace)
		errs = append(errs, os.MkdirAll(dir, 0o755), //nolint:gosec // as /etc is
			os.WriteFile(filepath.Join(dir, "resolv.conf"), []byte("nameserver "+addr+"\n"), 0o644)) //nolint:gosec // as it is there
	}
	return errors.Join(errs...)
}

// forget removes what Nameserver wrote for a namespace.
func forget(namespace string) error { return os.RemoveAll(filepath.Join(etc, namespace)) }
