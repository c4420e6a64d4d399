//go:build linux

package netns

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
)

// probe is the result of one attempt. Root in a container may lack the permission, and a
// kernel the modules.
var probe = sync.OnceValue(func() (t struct{ spaces, filters error }) {
	h := &Host{Namespace: fmt.Sprintf("sw%s-0n0", strconv.FormatInt(int64(os.Getpid()), 36)), Data: "127.0.0.1"}
	if err := ip("netns", "add", h.Namespace); err != nil {
		t.spaces = fmt.Errorf("netns: no network namespaces here: %w", err)
		return t
	}
	t.spaces = ip("-n", h.Namespace, "link", "add", "data0", "type", "veth", "peer", "name", "probe1")
	n := &Net{hosts: []*Host{h}}
	if err := errors.Join(n.DropPercent(0, 50), n.Reset(0, 0)); err != nil {
		t.filters = fmt.Errorf("netns: packets cannot be lost or refused here: %w", err)
	}
	t.spaces = errors.Join(t.spaces, ip("netns", "del", h.Namespace))
	return t
})
