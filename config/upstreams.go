package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"shardway/internal/address"
	"shardway/shardmap"
)

// upstreamListValue is the addresses of the app instances of a node.
type upstreamListValue struct {
	first   *string
	further *[]string
}

func (v upstreamListValue) set(texts []string) *valueProblem {
	texts = slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return text == "" })
	*v.first, *v.further = "", nil
	if len(texts) > 0 {
		*v.first, *v.further = texts[0], texts[1:]
	}
	return nil
}

// all returns the addresses of all instances.
func (v upstreamListValue) all() []string {
	if *v.first == "" {
		return nil
	}
	return append([]string{*v.first}, *v.further...)
}

func (v upstreamListValue) check() *valueProblem {
	upstreams := v.all()
	if len(upstreams) > shardmap.MaxInstances {
		return &valueProblem{strconv.Itoa(len(upstreams)) + " app instances", fmt.Sprintf("list at most %d", shardmap.MaxInstances)}
	}
	seen := map[address.Upstream]string{}
	for _, upstream := range upstreams {
		if problem := checkUpstream(upstream); problem != nil {
			if len(upstreams) == 1 {
				return problem
			}
			return &valueProblem{strconv.Quote(upstream) + ": " + problem.message, problem.remedy}
		}
		parsed, _ := address.ParseUpstream(upstream)
		if earlier, isDuplicate := seen[parsed]; isDuplicate {
			return &valueProblem{strconv.Quote(upstream) + ": the same address as " + strconv.Quote(earlier), "list each app instance once"}
		}
		seen[parsed] = upstream
	}
	return nil
}

func (v upstreamListValue) String() string { return strings.Join(v.all(), ",") }

// UpstreamAddressOf returns the address of an app instance as host:port. It is empty for a Unix socket,
// and for an invalid setting.
func UpstreamAddressOf(upstream string) string {
	if parsed, err := address.ParseUpstream(upstream); err == nil && parsed.Network == "tcp" {
		return parsed.Address
	}
	return ""
}
