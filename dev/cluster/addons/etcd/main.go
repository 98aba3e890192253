// Command etcd is etcd. Debian's 3.4 cannot report watch progress (RequestWatchProgress): with it, Kubernetes 1.36 fails
// every watch that names no resource version, after 3 s, with "Too large resource version".
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
