"""What is known of sizes and integers while a network is translated."""
