package config_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"shardway/config"
)

func TestAnnouncementIsRead(t *testing.T) {
	const text = "name: cache\nendpoint: [redis=10.0.0.9:6379, stats=10.0.0.9:80]\njoin: [10.0.0.1, b.example]\nsecret_file: s\n"
	for place, load := range map[string]func() (config.Config, error){
		"YAML": func() (config.Config, error) {
			return config.LoadAnnouncement([]string{"--config=f.yaml"}, nil, yamlFile(text))
		},
		"flags": func() (config.Config, error) {
			return config.LoadAnnouncement(strings.Fields("--name cache --endpoint redis=10.0.0.9:6379 --endpoint=stats=10.0.0.9:80 --join 10.0.0.1 --join b.example --secret-file s"), nil, files(nil))
		},
		"variables": func() (config.Config, error) {
			return config.LoadAnnouncement(nil, []string{
				"SHARDWAY_NAME=cache", "SHARDWAY_ENDPOINT=redis=10.0.0.9:6379,stats=10.0.0.9:80", "SHARDWAY_JOIN=10.0.0.1,b.example", "SHARDWAY_SECRET_FILE=s",
				"SHARDWAY_NODE=a", "SHARDWAY_UPSTREAM=http://127.0.0.1:1", // those of a node have no effect
			}, files(nil))
		},
	} {
		c, err := load()
		if err != nil {
			t.Errorf("%s: %v", place, err)
			continue
		}
		want := []config.Endpoint{{Name: "redis", Address: "10.0.0.9:6379"}, {Name: "stats", Address: "10.0.0.9:80"}}
		if c.Node != "cache" || !slices.Equal(c.Endpoints, want) || !slices.Equal(c.Join, []string{"10.0.0.1", "b.example"}) || c.SecretFile != "s" || c.Gossip != ":0" {
			t.Errorf("%s: %+v", place, c)
		}
	}
	c, err := config.LoadAnnouncement(strings.Fields("--name cache --endpoint redis=127.0.0.1:1 --join 127.0.0.1 --gossip-advertise 127.0.0.1"), nil, files(nil))
	if err != nil || c.Gossip != "127.0.0.1:0" || c.GossipAdvertise != "127.0.0.1" {
		t.Errorf("without a secret: gossip at %q, advertised as %q, %v", c.Gossip, c.GossipAdvertise, err)
	}
	if _, err := config.LoadAnnouncement([]string{"-h"}, nil, files(nil)); !errors.Is(err, config.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
}

// Each mistake is reported with the key, the value and a remedy.
func TestInvalidAnnouncementHasRemedy(t *testing.T) {
	const valid = "--name cache --endpoint redis=127.0.0.1:6379 --join 127.0.0.1 "
	for args, want := range map[string]string{
		"":                               `name (default): the service has no name; set it, such as --name cache-1`,
		"--name cache":                   `endpoint (default): there is no address to announce; set at least one, such as --endpoint redis=10.0.0.9:6379`,
		"--name cache --endpoint a=b:1":  `join (default): the cluster is unknown; set the gossip address of a node, such as --join 10.0.0.1:7946`,
		valid + "--name a/b":             `name = "a/b" (flag): not a name; use up to 64`,
		valid + "--name announce:a":      `name = "announce:a" (flag): not a name`,
		valid + "--name=":                `name (flag): the service has no name`,
		valid + "--endpoint redis=a:1":   `"redis" is there twice; give each endpoint a name of its own`,
		valid + "--endpoint x":           `endpoint = "redis=127.0.0.1:6379,x" (flag): "x" is not an endpoint; write it like grpc=10.0.0.5:9000`,
		valid + "--endpoint peer=a:1":    `"peer": nodes announce their own address under this name; choose another name`,
		valid + "--endpoint x=0.0.0.0:1": "other nodes cannot connect to an address without a host",
		valid + "--join 10.0.0.1":        `gossip = "127.0.0.1:0" (default): join names 10.0.0.1, and that machine cannot reach a loopback address; set --secret-file`,
		valid + "--join mdns":            `join = "127.0.0.1,mdns" (flag): mdns finds nodes by multicast DNS, and every host of the network can respond; set --secret-file`,
		valid + "--join mdns --secret-file s --gossip 127.0.0.1:7950": `gossip = "127.0.0.1:7950" (flag): join is mdns, and other machines cannot reach a loopback address`,
		valid + "--gossip :7950":         `gossip = ":7950" (flag): other hosts could reach it, and it is not protected; set --secret-file`,
		valid + "--upstream http://a":    `--upstream (flag): unknown flag; shardway announce --help lists them all`,
		valid + "--gossip-advertise a:b": `gossip-advertise = "a:b" (flag): "b" is not a port`,
		valid + "cache":                  `cache (argument): nothing is expected here; settings begin with two dashes, like --name "cache"`,
		valid + "--config f.yaml":        `lease (f.yaml:1): unknown key; remove it`,
		valid + "--config none.yaml":     `config = "none.yaml" (flag)`,
		valid + "--log-level loud":       `log-level = "loud" (flag): unknown value; choose one of debug`,
		valid + "--log-levl=info":        "did you mean --log-level?",
	} {
		_, err := config.LoadAnnouncement(strings.Fields(args), nil, yamlFile("lease: 1s\nroutes: {/a: ip}\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
	_, err := config.LoadAnnouncement(strings.Fields(valid+"--config=f.yaml"), nil, yamlFile("routes: {/a: ip}\nheaders: {}\n"))
	if all := problems(t, err); len(all) != 2 || all[0].Key != "routes" || all[1].Key != "headers" {
		t.Errorf("tables of a node: %v", err)
	}
	_, err = config.LoadAnnouncement(strings.Fields(valid), []string{"SHARDWAY_NAM=x"}, files(nil))
	if err == nil || !strings.Contains(err.Error(), "did you mean SHARDWAY_NAME?") {
		t.Errorf("misspelt variable: %v", err)
	}
}
