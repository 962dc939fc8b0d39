// A pool of threads with futures that reads all files of a directory. Prints how many, their bytes and lines.
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <mutex>
#include <queue>
#include <string>
#include <thread>
#include <vector>

class Pool {
public:
    explicit Pool(unsigned size) {
        for (unsigned i = 0; i < size; i++)
            threads.emplace_back([this] { work(); });
    }
    ~Pool() {
        {
            std::lock_guard lock(mutex);
            closed = true;
        }
        condition.notify_all();
        for (auto &thread : threads)
            thread.join();
    }
    template <class F> auto give(F function) {
        auto task = std::make_shared<std::packaged_task<decltype(function())()>>(std::move(function));
        auto result = task->get_future();
        {
            std::lock_guard lock(mutex);
            tasks.emplace([task] { (*task)(); });
        }
        condition.notify_one();
        return result;
    }

private:
    void work() {
        for (;;) {
            std::function<void()> task;
            {
                std::unique_lock lock(mutex);
                condition.wait(lock, [this] { return closed || !tasks.empty(); });
                if (tasks.empty())
                    return;
                task = std::move(tasks.front());
                tasks.pop();
            }
            task();
        }
    }
    std::vector<std::thread> threads;
    std::queue<std::function<void()>> tasks;
    std::mutex mutex;
    std::condition_variable condition;
    bool closed = false;
};

struct Counts {
    size_t bytes = 0, lines = 0;
};

static Counts count(const std::filesystem::path &path) {
    std::ifstream file(path);
    if (!file)
        throw std::runtime_error("open " + path.string());
    Counts counts;
    for (std::string line; std::getline(file, line); counts.lines++)
        counts.bytes += line.size() + 1;
    return counts;
}

int main(int, char **arguments) {
    Pool pool(4);
    std::map<std::string, std::future<Counts>> results;
    size_t given = 0;
    for (const auto &entry : std::filesystem::directory_iterator(arguments[1]))
        if (entry.is_regular_file() && given++ < 200)
            results.emplace(entry.path().filename(), pool.give([path = entry.path()] { return count(path); }));
    Counts all;
    for (auto &[name, result] : results) {
        try {
            Counts counts = result.get();
            all.bytes += counts.bytes;
            all.lines += counts.lines;
        } catch (const std::exception &error) {
            std::cerr << error.what() << '\n';
            return 1;
        }
    }
    std::cout << results.size() << " files, " << all.bytes << " bytes, " << all.lines << " lines\n";
}
