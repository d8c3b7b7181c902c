// Goroutines that wait for a mutex and an rwmutex, and what they say about it themselves: the number of the one that holds the mutex, and
// the nanoseconds that others waited, by place. With an argument it says "ready" first, begins after a line of input, says "done" at
// the end, and ends with its input.
// SPDX-License-Identifier: Apache-2.0
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"sync"
	"time"
)

var (
	index  sync.Mutex
	ledger sync.RWMutex
	own    sync.Mutex
	looked, booked, read int64
)

func number() int {
	buffer := make([]byte, 64)
	n, _ := strconv.Atoi(string(bytes.Fields(buffer[:runtime.Stack(buffer, false)])[1]))
	return n
}

//go:noinline
func add(to *int64, from time.Time) {
	waited := time.Since(from)
	own.Lock()
	*to += int64(waited)
	own.Unlock()
}

//go:noinline
func rebuilds() {
	index.Lock()
	time.Sleep(20 * time.Millisecond)
	index.Unlock()
	time.Sleep(3 * time.Millisecond)
}

//go:noinline
func looksUp() {
	from := time.Now()
	index.Lock()
	add(&looked, from)
	index.Unlock()
	time.Sleep(2 * time.Millisecond)
}

//go:noinline
func books() {
	from := time.Now()
	ledger.Lock()
	add(&booked, from)
	time.Sleep(8 * time.Millisecond)
	ledger.Unlock()
	time.Sleep(2 * time.Millisecond)
}

//go:noinline
func reads() {
	from := time.Now()
	ledger.RLock()
	add(&read, from)
	ledger.RUnlock()
	time.Sleep(1 * time.Millisecond)
}

func main() {
	input := bufio.NewReader(os.Stdin)
	if len(os.Args) > 1 {
		fmt.Println("ready")
		input.ReadString('\n')
	} else {
		time.Sleep(300 * time.Millisecond) // so that sonde has read the program
	}
	var all sync.WaitGroup
	var keeper int
	start := func(does func(), times int) {
		all.Add(1)
		go func() {
			for i := 0; i < times; i++ {
				does()
			}
			all.Done()
		}()
	}
	all.Add(1)
	go func() {
		keeper = number()
		for i := 0; i < 50; i++ {
			rebuilds()
		}
		all.Done()
	}()
	start(looksUp, 50)
	start(books, 50)
	start(books, 50)
	start(reads, 50)
	all.Wait()
	fmt.Printf("{\"keeper\": %d, \"looksUp\": %d, \"books\": %d, \"reads\": %d}\n", keeper, looked, booked, read)
	if len(os.Args) > 1 {
		fmt.Println("done")
		io.Copy(io.Discard, input)
	}
}
