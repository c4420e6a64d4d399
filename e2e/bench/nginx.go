//go:build linux

package main

import (
	"context"
	"fmt"
	"strings"
)

// nginxConfig is a proxy with the duties of a node. The keep-alive pools are
// large enough for every case.
const nginxConfig = `
daemon off;
worker_processes 1;
pid %[1]s/%[2]s.pid;
error_log %[1]s/%[2]s.err;
events { worker_connections 8192; }
http {
  access_log off;
  keepalive_requests 1000000000;
  client_body_temp_path %[1]s/%[2]s-body;
  proxy_temp_path %[1]s/%[2]s-proxy;
  fastcgi_temp_path %[1]s/%[2]s-fastcgi;
  uwsgi_temp_path %[1]s/%[2]s-uwsgi;
  scgi_temp_path %[1]s/%[2]s-scgi;
  map $http_x_request_id $id { default $http_x_request_id; "" $request_id; }
  upstream app {
    hash $http_x_shard_key consistent;
    %[3]s
    keepalive 512;
    keepalive_requests 1000000000;
  }
  server {
    listen %[4]s backlog=4096;
    location / {
      proxy_pass http://app;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host $http_host;
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
      proxy_set_header X-Forwarded-Host $http_host;
      proxy_set_header X-Forwarded-Proto $scheme;
      proxy_set_header X-Request-Id $id;
      proxy_set_header Via "1.1 nginx";
    }
  }
}
`

// nginx starts one nginx before the backends, and two for two hops.
func (b *stage) nginx(ctx context.Context) ([]*line, error) {
	program, err := find("nginx", "nginx-light")
	if err != nil {
		return nil, err
	}
	last, at, err := b.startNginx(ctx, program, "nginx", b.backends)
	if err != nil {
		return nil, err
	}
	first, before, err := b.startNginx(ctx, program, "nginx-first", []string{at})
	if err != nil {
		return nil, err
	}
	return []*line{
		{name: "nginx", hops: 1, target: at, procs: []*process{last}, version: version(ctx, program, "-v")},
		{name: "nginx → nginx", hops: 2, target: before, procs: []*process{first, last}},
	}, nil
}

func (b *stage) startNginx(ctx context.Context, program, name string, to []string) (*process, string, error) {
	at, err := b.addr() //nolint:contextcheck // probing a port of this machine is over at once
	if err != nil {
		return nil, "", err
	}
	servers := make([]string, len(to))
	for i, addr := range to {
		servers[i] = "server " + addr + ";"
	}
	config, err := b.write(name+".conf", fmt.Sprintf(nginxConfig, b.dir, name, strings.Join(servers, " "), at))
	if err != nil {
		return nil, "", err
	}
	p, err := b.launch(ctx, name, at, nil, program, "-c", config, "-e", b.dir+"/"+name+".err")
	return p, at, err
}
