// Command target is what k6's scripts ask where there is no application: a server
// that spends as much CPU on a request as its header X-Cpu-Seconds says, a thread's
// own CPU time, so that a throttled container takes longer over it; and that holds as much
// memory as X-Memory-Bytes said last. With --file-bytes the kernel keeps a file for it, which
// X-Read-File reads. Linux only.
//
//	go run ./experiments/k6/target --listen 127.0.0.1:8080
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address to listen on")
	start := flag.Duration("start-cpu", 0, "CPU time to spend before listening, as a program that takes long to start")
	file := flag.Int64("file-bytes", 0, "size of a file that it writes to the working directory before listening, as a program that writes logs")
	memory := flag.String("memory-bytes", "", "memory that it holds from the start")
	flag.Parse()
	if *memory != "" {
		if err := hold(*memory); err != nil {
			fmt.Fprintln(os.Stderr, "target:", err)
			os.Exit(1)
		}
	}
	if err := write(fileName, *file); err != nil {
		fmt.Fprintln(os.Stderr, "target:", err)
		os.Exit(1)
	}
	if _, err := spend(context.Background(), *start); err != nil {
		fmt.Fprintln(os.Stderr, "target:", err)
		os.Exit(1)
	}
	server := http.Server{Addr: *listen, Handler: http.HandlerFunc(answer), ReadHeaderTimeout: 10 * time.Second}
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		fmt.Fprintln(os.Stderr, "target:", err)
		os.Exit(1)
	}
}

// fileName of the file that it writes.
const fileName = "target.data"

// write makes a file of so many bytes; none where that is 0.
func write(name string, bytes int64) error {
	if bytes <= 0 {
		return nil
	}
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	for ; bytes > 0 && err == nil; bytes -= int64(len(block)) {
		_, err = f.Write(block[:min(bytes, int64(len(block)))])
	}
	return errors.Join(err, f.Close())
}

// read a file to its end.
func read(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, f)
	return errors.Join(err, f.Close())
}

// most CPU time that one request gets.
const most = time.Minute

func answer(w http.ResponseWriter, r *http.Request) {
	seconds := 0.0
	if text := r.Header.Get("X-Cpu-Seconds"); text != "" {
		var err error
		if seconds, err = strconv.ParseFloat(text, 64); err != nil || !(seconds >= 0 && seconds <= most.Seconds()) {
			http.Error(w, "X-Cpu-Seconds must be a number from 0 to 60", http.StatusBadRequest)
			return
		}
	}
	if text := r.Header.Get("X-Memory-Bytes"); text != "" {
		if err := hold(text); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	if r.Header.Get("X-Read-File") != "" {
		if err := read(fileName); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	spent, err := spend(r.Context(), time.Duration(seconds*float64(time.Second)))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("X-Cpu-Spent", strconv.FormatFloat(spent.Seconds(), 'f', 6, 64))
	fmt.Fprintln(w, "ok")
}

// spend CPU time of this thread, until it is done or nobody waits any more.
func spend(ctx context.Context, d time.Duration) (time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin, err := threadTime()
	if err != nil {
		return 0, err
	}
	var block [4096]byte
	for {
		now, err := threadTime()
		if err != nil || now-begin >= d || ctx.Err() != nil {
			return now - begin, err
		}
		sum := sha256.Sum256(block[:])
		copy(block[:], sum[:])
	}
}

// threadTime is the CPU time of the calling thread.
func threadTime() (time.Duration, error) {
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	err := syscall.Getrusage(thread, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), err
}
