// All-reduce of f32 sums by Gloo's class API, in place as it works: one checked run, warm-up,
// barrier, then timed runs without a barrier between them; the mean of the slowest rank counts and is
// printed by rank 1. Wrong sums are an error and give no figure.
//
//     gloo_allreduce tcp|ibverbs DEVICE ring|rhd RANKS SIZE ROOT PORT BYTES WARMUPS ITERATIONS
//
// RANKS, e.g. 0,2, are played here, each by a process of its own; rank 0 keeps the store at ROOT:PORT.

#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier_all_to_one.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/ibverbs/device.h>
#include <gloo/transport/tcp/device.h>

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static void all(int fd, void *bytes, size_t count, bool out) {
    char *at = static_cast<char *>(bytes);
    while (count > 0) {
        ssize_t n = out ? send(fd, at, count, MSG_NOSIGNAL) : recv(fd, at, count, 0);
        if (n <= 0) throw std::runtime_error("store: connection ended");
        at += n;
        count -= n;
    }
}

static void put(int fd, const std::string &text) {
    uint32_t length = text.size();
    all(fd, &length, sizeof length, true);
    all(fd, const_cast<char *>(text.data()), length, true);
}

static std::string take(int fd) {
    uint32_t length = 0;
    all(fd, &length, sizeof length, false);
    std::string text(length, 0);
    all(fd, &text[0], length, false);
    return text;
}

static sockaddr_in place(const char *address, int port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    inet_pton(AF_INET, address, &at.sin_addr);
    return at;
}

// Keeps what ranks tell each other; who asks for what is not there yet waits.
class Keeper {
  public:
    explicit Keeper(int port) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
        int on = 1;
        setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        sockaddr_in at = place("0.0.0.0", port);
        if (bind(fd_, reinterpret_cast<sockaddr *>(&at), sizeof at) || listen(fd_, 64))
            throw std::runtime_error("store: cannot listen");
        std::thread([this] {
            for (int fd; (fd = accept(fd_, nullptr, nullptr)) >= 0;) std::thread([this, fd] { serve(fd); }).detach();
        }).detach();
    }

  private:
    void serve(int fd) {
        try {
            std::string what = take(fd), key = take(fd);
            if (what == "set") {
                std::string value = take(fd);
                std::lock_guard<std::mutex> lock(mutex_);
                kept_[key] = value;
                changed_.notify_all();
            } else {
                std::unique_lock<std::mutex> lock(mutex_);
                changed_.wait(lock, [&] { return kept_.count(key) > 0; });
                std::string value = kept_[key];
                lock.unlock();
                put(fd, value);
            }
        } catch (const std::exception &) {
        }
        close(fd);
    }

    int fd_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::map<std::string, std::string> kept_;
};

class Store : public gloo::rendezvous::Store {
  public:
    Store(const char *address, int port) : at_(place(address, port)) {}
    void set(const std::string &key, const std::vector<char> &data) override {
        int fd = dial();
        put(fd, "set");
        put(fd, key);
        put(fd, std::string(data.begin(), data.end()));
        char end;
        (void)!recv(fd, &end, 1, 0);
        close(fd);
    }
    std::vector<char> get(const std::string &key) override {
        int fd = dial();
        put(fd, "get");
        put(fd, key);
        std::string value = take(fd);
        close(fd);
        return std::vector<char>(value.begin(), value.end());
    }
    void wait(const std::vector<std::string> &keys) override {
        for (const auto &key : keys) get(key);
    }
    void wait(const std::vector<std::string> &keys, const std::chrono::milliseconds &) override { wait(keys); }

  private:
    int dial() {
        for (int attempt = 0; attempt < 100; attempt++) {
            int fd = socket(AF_INET, SOCK_STREAM, 0);
            if (connect(fd, reinterpret_cast<sockaddr *>(&at_), sizeof at_) == 0) return fd;
            close(fd);
            std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
        throw std::runtime_error("store: nobody listens");
    }

    sockaddr_in at_;
};

static float value(int rank, size_t i) { return 1 + (i * 2654435761u + (size_t)rank * 97) % 1000; }

static std::vector<char> bytes(const std::string &text) { return std::vector<char>(text.begin(), text.end()); }

static int play(int rank, char **argv) {
    int size = atoi(argv[5]), port = atoi(argv[7]), warmups = atoi(argv[9]), iterations = atoi(argv[10]);
    size_t count = strtoul(argv[8], nullptr, 10) / sizeof(float);
    std::unique_ptr<Keeper> keeper(rank == 0 ? new Keeper(port) : nullptr);
    Store store(argv[6], port);
    std::shared_ptr<gloo::transport::Device> device;
    if (std::string(argv[1]) == "tcp") {
        gloo::transport::tcp::attr attr;
        attr.iface = argv[2];
        device = gloo::transport::tcp::CreateDevice(attr);
    } else {
        // GID 1 of rdma_rxe is IPv4.
        gloo::transport::ibverbs::attr attr{argv[2], 1, 1};
        device = gloo::transport::ibverbs::CreateDevice(attr);
    }
    auto context = std::make_shared<gloo::rendezvous::Context>(rank, size);
    context->connectFullMesh(store, device);
    std::vector<float> data(count);
    for (size_t i = 0; i < count; i++) data[i] = value(rank, i);
    std::vector<float *> pointers{data.data()};
    std::unique_ptr<gloo::Algorithm> algorithm;
    if (std::string(argv[3]) == "ring")
        algorithm.reset(new gloo::AllreduceRingChunked<float>(context, pointers, count));
    else
        algorithm.reset(new gloo::AllreduceHalvingDoubling<float>(context, pointers, count));
    gloo::BarrierAllToOne barrier(context);
    algorithm->run();
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) {
        float want = 0;
        for (int other = 0; other < size; other++) want += value(other, i);
        wrong += data[i] != want;
    }
    // Sums of sums soon leave the range of f32; zeros do not.
    std::fill(data.begin(), data.end(), 0.0f);
    for (int i = 0; i < warmups; i++) algorithm->run();
    barrier.run();
    auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < iterations; i++) algorithm->run();
    std::chrono::duration<double, std::micro> took = std::chrono::steady_clock::now() - begin;
    double slowest = took.count() / iterations;
    store.set("time/" + std::to_string(rank), bytes(wrong ? "wrong" : std::to_string(slowest)));
    for (int other = 0; other < size; other++) {
        auto told = store.get("time/" + std::to_string(other));
        std::string text(told.begin(), told.end());
        if (text == "wrong") {
            fprintf(stderr, "rank %d: elements wrong\n", other);
            wrong++;
        } else
            slowest = std::max(slowest, atof(text.c_str()));
    }
    if (rank == 1 && wrong == 0) printf("mean of the slowest rank: %.3f us\n", slowest);
    fflush(stdout);
    store.set("done/" + std::to_string(rank), bytes("1"));
    if (rank == 0)
        for (int other = 0; other < size; other++) store.get("done/" + std::to_string(other));
    // Threads of the library may still wait for a peer that is gone.
    _exit(wrong != 0);
}

int main(int argc, char **argv) {
    if (argc != 11) {
        fprintf(stderr, "usage: gloo_allreduce tcp|ibverbs DEVICE ring|rhd RANKS SIZE ROOT PORT BYTES WARMUPS ITERATIONS\n");
        return 2;
    }
    std::stringstream ranks(argv[4]);
    std::string rank;
    int failed = 0;
    while (std::getline(ranks, rank, ',')) {
        if (fork() == 0) {
            try {
                _exit(play(std::stoi(rank), argv));
            } catch (const std::exception &error) {
                fprintf(stderr, "rank %s: %s\n", rank.c_str(), error.what());
                _exit(1);
            }
        }
    }
    for (int status; wait(&status) > 0;) failed |= status;
    return failed != 0;
}
