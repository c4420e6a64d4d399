//go:build linux

package main

import (
	"context"
	"fmt"
	"strings"
)

// nginxConfig configures a proxy with the same tasks as a node. The pools of idle
// connections are large enough for every case.
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
    listen %[5]s ssl backlog=4096;
    ssl_certificate %[6]s;
    ssl_certificate_key %[6]s;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host $http_host;
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    proxy_set_header X-Forwarded-Host $http_host;
    proxy_set_header X-Forwarded-Proto $scheme;
    proxy_set_header X-Request-Id $id;
    proxy_set_header Via "1.1 nginx";
    location / { proxy_pass http://app; }
    # What a client sends or takes for a while: passed on as it comes, and not by files.
    location ~ ^/[0-9]+/[0-9]+$ {
      proxy_pass http://app;
      client_max_body_size 0;
      proxy_request_buffering off;
      proxy_max_temp_file_size 0;
    }
  }
}
`

// startNginxSetups starts an nginx in front of the backends, and for two hops another one in front of
// the first. It returns a setup for one hop, for one hop with TLS, and for two hops. If
// nginx is not installed, the error is a *notInstalledError.
func (b *benchRun) startNginxSetups(ctx context.Context) ([]*setup, error) {
	program, err := find("nginx", "nginx-light")
	if err != nil {
		return nil, err
	}
	lastSetup, err := b.startNginx(ctx, program, "nginx", b.backends)
	if err != nil {
		return nil, err
	}
	first, err := b.startNginx(ctx, program, "nginx-first", []string{lastSetup.target})
	if err != nil {
		return nil, err
	}
	lastSetup.name, lastSetup.hops, lastSetup.version = "nginx", 1, version(ctx, program, "-v")
	first.name, first.hops, first.processes = "nginx → nginx", 2, append(first.processes, lastSetup.processes...)
	return []*setup{lastSetup, {name: lastSetup.name, hops: 1, usesTLS: true, target: lastSetup.tlsTarget, processes: lastSetup.processes}, first}, nil
}

// startNginx starts one nginx in front of the addresses to. It listens on a port without
// TLS and on a port with TLS.
func (b *benchRun) startNginx(ctx context.Context, program, name string, backends []string) (*setup, error) {
	addrs, err := b.addrs(2) //nolint:contextcheck // probing a port of this machine is over at once
	if err != nil {
		return nil, err
	}
	servers := make([]string, len(backends))
	for i, addr := range backends {
		servers[i] = "server " + addr + ";"
	}
	config, err := b.writeFile(name+".conf", fmt.Sprintf(nginxConfig, b.dir, name, strings.Join(servers, " "), addrs[0], addrs[1], b.certificate))
	if err != nil {
		return nil, err
	}
	child, err := b.launch(ctx, name, addrs[0], nil, program, "-c", config, "-e", b.dir+"/"+name+".err")
	return &setup{target: addrs[0], tlsTarget: addrs[1], processes: []*process{child}}, err
}
