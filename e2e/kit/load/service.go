//go:build linux

package load

import (
	"strings"

	"shardway/e2e/kit/history"
)

// ServiceKey returns a key whose requests are sent to a service. The path of these requests is /SERVICE/.
func ServiceKey(service, key string) string { return service + history.ServiceMark + key }

// DefaultPath returns the path of a request for a key.
func DefaultPath(key string) string {
	if service, _, found := strings.Cut(key, history.ServiceMark); found {
		return "/" + service + "/"
	}
	return "/"
}
