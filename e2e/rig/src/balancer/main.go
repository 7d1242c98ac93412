// balancer forwards TCP connections: it replaces a cluster's virtual IP, and can slow down a server.
//
//	balancer [-latency 2s] LISTEN BACKEND...
//
// Like a virtual IP, it leads to one machine: the first backend that accepts within half a second. If none does, the
// client's connection is closed. With -latency, all data from a backend arrives later by that time: an answer over a
// new TLS connection takes it twice.
package main

import (
	"flag"
	"log"
	"net"
	"sync"
	"time"
)

const patience = 500 * time.Millisecond

func main() {
	latency := flag.Duration("latency", 0, "how much later the backend's bytes arrive")
	flag.Parse()
	if flag.NArg() < 2 {
		log.Fatal("usage: balancer [-latency DURATION] LISTEN BACKEND...")
	}
	listener, err := net.Listen("tcp", flag.Arg(0))
	if err != nil {
		log.Fatal(err)
	}
	for {
		client, err := listener.Accept()
		if err != nil {
			log.Fatal(err)
		}
		go serve(client, flag.Args()[1:], *latency)
	}
}

func serve(client net.Conn, backends []string, latency time.Duration) {
	defer client.Close()
	for _, address := range backends {
		backend, err := net.DialTimeout("tcp", address, patience)
		if err != nil {
			continue
		}
		defer backend.Close()
		var both sync.WaitGroup
		both.Go(func() { forward(backend, client, 0) })
		both.Go(func() { forward(client, backend, latency) })
		both.Wait()
		return
	}
}

type chunk struct {
	due   time.Time
	bytes []byte
}

// forward copies until the end, which it passes on, and delays all data by the same time.
func forward(to, from net.Conn, latency time.Duration) {
	held := make(chan chunk, 1024)
	go func() {
		defer close(held)
		for {
			buffer := make([]byte, 32<<10)
			n, err := from.Read(buffer)
			held <- chunk{time.Now().Add(latency), buffer[:n]}
			if err != nil {
				return
			}
		}
	}()
	for c := range held {
		time.Sleep(time.Until(c.due))
		if _, err := to.Write(c.bytes); err != nil {
			break
		}
	}
	to.(*net.TCPConn).CloseWrite()
	for range held { // what can be passed on no more
	}
}
