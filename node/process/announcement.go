package process

import (
	"errors"
	"strings"

	"shardway/config"
	"shardway/endpoints"
	"shardway/internal/nodelabel"
	"shardway/internal/version"
	"shardway/node/gossip"
)

// Minimum values for the parts of an announcement that are not known before the node starts.
const (
	shortestAddr   = "1.1.1.1:1"
	shortestNodeID = "n"
	diskIDBytes    = 16
)

// checkAnnouncement returns a *FileError for the largest setting if the announcement of the node cannot fit into its
// gossip tags. It resolves no names, so it uses the shortest addresses that the node may have. New checks the real
// announcement.
func checkAnnouncement(conf *config.Config) error {
	meta, _ := nodelabel.ParseMeta(conf.Meta) // config.Load reports an error
	tags := gossip.Tags{
		Node: conf.Node, Disk: strings.Repeat("x", diskIDBytes), Shards: conf.Shards, Role: gossip.RoleNode, BootstrapExpect: conf.BootstrapExpect,
		Weight: uint32(conf.Weight), Zone: conf.Zone, Region: conf.Region, Roles: conf.Roles, Meta: meta,
		Version: version.Version, AppVersion: conf.AppVersion,
		Endpoints: map[string]string{endpoints.Peer: shortestAddr, endpoints.HTTP: shortestAddr},
	}
	if tags.Node == "" {
		tags.Node = shortestNodeID
	}
	for _, endpoint := range conf.Endpoints {
		tags.Endpoints[endpoint.Name] = endpoint.Address
	}
	if tooLong, ok := errors.AsType[*gossip.TooLongError](tags.CheckSize()); ok {
		return &FileError{tooLong.Setting, tooLong}
	}
	return nil
}
